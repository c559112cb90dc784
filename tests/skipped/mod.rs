//! Tests that need what a machine may not have.

/// Says which test is skipped and why. Where all tools are required (`KLAB_REQUIRE=all`), as in CI, the test fails.
pub(crate) fn skipped(reason: &str) {
    let required = std::env::var_os("KLAB_REQUIRE").is_some_and(|required| required == "all");
    assert!(!required, "KLAB_REQUIRE=all, and {reason}");
    not_possible_here(reason);
}

/// As [`skipped`], for what no installation brings: rights of this user, features of this kernel.
pub(crate) fn not_possible_here(reason: &str) {
    let thread = std::thread::current();
    // Past libtest's capture, so that nobody takes a skipped test for a passed one.
    let line = format!("skipped: {reason} ({})\n", thread.name().unwrap_or("a test"));
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

/// Whether a program is installed; a test that is skipped says so.
pub(crate) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !is_there {
        skipped(&format!("{program} is not installed"));
    }
    is_there
}
