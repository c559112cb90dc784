//! What comes out of checks: per check a verdict, what is true now, and why.

use std::time::Duration;

use super::cause::{Cause, Suggestion};
use super::predict::Difference;
use crate::code::Code;
use crate::spec::Location;

/// Whether a check holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds, and has held as long as it must.
    Held,
    /// It may still come to hold without anybody acting.
    NotYet {
        /// What is going on: `2 pods are starting`.
        waiting_for: String,
    },
    /// It can no longer hold unless somebody acts.
    Impossible {
        /// What stands in the way: `1 pod is unschedulable`.
        because: String,
    },
}

impl Verdict {
    /// Whether the check holds.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held)
    }

    /// Stable word for machines: `held`, `not-yet`, `impossible`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::NotYet { .. } => "not-yet",
            Self::Impossible { .. } => "impossible",
        }
    }
}

/// Whether one condition holds at this moment, windows left aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Holds,
    /// Something is under way that may make it hold.
    Moving(String),
    /// Nothing that the snapshot shows will make it hold.
    Blocked(String),
}

impl Standing {
    pub(crate) fn moving(what: impl Into<String>) -> Self {
        Self::Moving(what.into())
    }

    pub(crate) fn blocked(why: impl Into<String>) -> Self {
        Self::Blocked(why.into())
    }

    /// How bad it is; a check stands as badly as its worst condition.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Holds => 0,
            Self::Moving(_) => 1,
            Self::Blocked(_) => 2,
        }
    }
}

/// One condition of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which condition it is; `no-pods`, `no-nodes`, `no-object` where the subject is missing.
    pub code: Code,
    /// Whether it holds now.
    pub holds: bool,
    /// What is true now, in numbers: `2 of 3 on pool:extra, 1 Pending`.
    pub now: String,
    /// Names of the pods (`namespace/name`) or nodes that keep it from holding, sorted.
    pub offenders: Vec<String>,
    /// Where the condition is written.
    pub at: Location,
    pub(crate) standing: Standing,
}

/// One check after a look at the cluster.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// The author's name for the check, or one made from subject and conditions.
    pub name: String,
    /// What it is about: `workload nanomon-api`.
    pub subject: String,
    /// Where the check's table begins.
    pub at: Location,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Its conditions in the order of the file; a single one where the subject is missing.
    pub findings: Vec<Finding>,
    /// What the author tells a learner when it does not hold.
    pub hint: Option<String>,
    /// Why it does not hold; filled in by [`super::diagnose`].
    pub causes: Vec<Cause>,
    /// What would make it hold, the smallest change first; filled in by [`super::diagnose`].
    pub suggestions: Vec<Suggestion>,
}

impl CheckResult {
    /// What is true now, in one line: of all conditions that do not hold, or of all where the check holds.
    pub fn now(&self) -> String {
        let failing = self.findings.iter().any(|finding| !finding.holds);
        let texts: Vec<&str> =
            self.findings.iter().filter(|finding| finding.holds != failing).map(|finding| &*finding.now).collect();
        texts.join("; ")
    }

    /// The code of the first condition that does not hold, or of the first one.
    pub fn code(&self) -> Code {
        let failing = self.findings.iter().find(|finding| !finding.holds);
        failing.or(self.findings.first()).map_or(Code::NoConditions, |finding| finding.code)
    }
}

/// All checks after a look at the cluster.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Name of the lab.
    pub lab: String,
    /// How long the cluster was watched.
    pub elapsed: Duration,
    /// One result per check, in the order given.
    pub checks: Vec<CheckResult>,
    /// Workloads that the cluster placed otherwise than predicted, where somebody compared.
    pub differences: Vec<Difference>,
    /// What was changed in the cluster and is asked for by no step, where somebody looked.
    pub unasked: Vec<Aside>,
    /// What the step asks for and is not done, where somebody looked.
    pub open: Vec<Aside>,
}

/// Something beside the checks: what is otherwise in the cluster than in the lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Aside {
    /// `node/extra-0: taint dedicatd=special:NoSchedule is not in the lab`.
    pub what: String,
    /// What makes it as in the lab, as it is typed.
    pub command: Option<String>,
}

/// What a report says beside its checks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asides {
    /// What was changed and not asked for.
    pub unasked: Vec<Aside>,
    /// What the step asks for and is not done.
    pub open: Vec<Aside>,
}

/// The asides of a step (from 0) or of the set-up, as the lab was last compared.
#[derive(Debug, Default)]
pub struct KnownAsides {
    step: Option<usize>,
    asides: Asides,
}

impl KnownAsides {
    /// Those of a step; none where another one was compared.
    pub fn at(&self, step: Option<usize>) -> Asides {
        if self.step == step { self.asides.clone() } else { Asides::default() }
    }

    /// Takes in those of a step; says whether they are news.
    pub fn take(&mut self, step: Option<usize>, asides: Asides) -> bool {
        let is_news = self.at(step) != asides;
        *self = Self { step, asides };
        is_news
    }
}

impl Report {
    /// Whether every check holds.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(|check| check.verdict.is_held())
    }

    /// Says what was changed and not asked for, and, where a check does not hold, what the step asks for and is not done. That is the
    /// way then: klab offers no other fix.
    pub fn mention(&mut self, Asides { unasked, open }: Asides) {
        self.unasked = unasked;
        if !self.ok() {
            if !open.is_empty() {
                self.drop_suggestions();
            }
            self.open = open;
        }
    }

    /// Offers no fix: there is a better way, or the learner is to find it.
    pub fn drop_suggestions(&mut self) {
        self.checks.iter_mut().for_each(|check| check.suggestions.clear());
    }

    /// How many checks hold.
    pub fn held(&self) -> usize {
        self.checks.iter().filter(|check| check.verdict.is_held()).count()
    }

    /// Whether waiting is pointless: every check holds, or one can no longer hold.
    pub fn decided(&self) -> bool {
        self.ok() || self.checks.iter().any(|check| matches!(check.verdict, Verdict::Impossible { .. }))
    }

    /// Whether waiting changes no verdict: every check holds, or can no longer hold.
    pub fn settled(&self) -> bool {
        self.checks.iter().all(|check| check.verdict.is_held() || matches!(check.verdict, Verdict::Impossible { .. }))
    }
}

#[cfg(test)]
impl Finding {
    pub(crate) fn for_test(code: Code, holds: bool, now: &str, at: Location) -> Self {
        let standing = if holds { Standing::Holds } else { Standing::blocked(now) };
        Self { code, holds, now: now.to_owned(), offenders: Vec::new(), at, standing }
    }
}

#[cfg(test)]
impl CheckResult {
    pub(crate) fn for_test(name: &str, subject: &str, at: Location, verdict: Verdict, findings: Vec<Finding>) -> Self {
        let (name, subject) = (name.to_owned(), subject.to_owned());
        Self { name, subject, at, verdict, findings, hint: None, causes: Vec::new(), suggestions: Vec::new() }
    }
}
