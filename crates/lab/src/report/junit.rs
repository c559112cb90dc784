//! A report for pipelines: JUnit XML, a suite per look at the lab and a case per check.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report as Document, TestCase, TestCaseStatus, TestSuite};

use super::human::{Styles, check_lines};
use crate::verify::{CheckResult, Report};

/// One look at a lab: its set-up, or a step.
#[derive(Clone, Copy, Debug)]
pub struct Suite<'a> {
    /// What the suite is called: `scheduling`, or `scheduling / taint`.
    pub name: &'a str,
    /// What was seen.
    pub report: &'a Report,
}

/// JUnit XML of looks at labs.
///
/// # Errors
/// When the XML cannot be written, which a text in memory does not give cause for.
pub fn junit(suites: &[Suite<'_>]) -> Result<String, quick_junit::SerializeError> {
    let mut document = Document::new("klab");
    document.set_time(suites.iter().map(|suite| suite.report.elapsed).sum());
    for suite in suites {
        let mut written = TestSuite::new(suite.name);
        written.set_time(suite.report.elapsed);
        written.add_test_cases(suite.report.checks.iter().map(|check| case(check, suite.name, suite.report.elapsed)));
        document.add_test_suite(written);
    }
    document.to_string()
}

/// One check as a case of a suite, which took as long as the look that decided it.
pub fn case(check: &CheckResult, suite: &str, elapsed: Duration) -> TestCase {
    let status = if check.verdict.is_held() {
        TestCaseStatus::success()
    } else {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_type(check.code().to_string());
        status.set_message(format!("{} → {}", check.name, check.now()));
        status.set_description(check_lines(check, Styles::plain()));
        status
    };
    let mut case = TestCase::new(check.name.as_str(), status);
    case.set_classname(suite);
    case.set_time(elapsed);
    case
}
