//! The moving picture of `klab up` in the README: it loads and runs nothing, suits every reader, and shows what klab says.

fn picture() -> String {
    std::fs::read_to_string("docs/up.svg").unwrap()
}

#[test]
fn it_loads_nothing_and_runs_nothing() {
    let picture = picture().replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for word in [
        "<script",
        "javascript:",
        "href",
        "url(",
        "@import",
        "http:",
        "https:",
        "<image",
        "<foreignObject",
        " onload",
        " onclick",
    ] {
        assert!(!picture.contains(word), "{word}");
    }
}

#[test]
fn it_is_still_for_who_wants_it_so_and_has_light_and_dark() {
    let picture = picture();
    let (before, moving) = picture.split_once("@media(prefers-reduced-motion:no-preference){").unwrap();
    assert!(!before.contains("animation") && !before.contains("@keyframes"));
    assert!(moving.contains("@keyframes"));
    assert!(before.contains("@media(prefers-color-scheme:dark)"));
    // Read aloud, it is the text.
    assert!(before.contains("role=\"img\"") && before.contains("<title") && before.contains("<desc"));
}

#[test]
fn it_says_what_klab_says() {
    // A test sees that klab prints this.
    let page = std::fs::read_to_string("docs/learn/first-lesson.md").unwrap();
    let block = page.split_once("$ klab up scheduling\n").unwrap().1.split("```").next().unwrap();
    let picture = picture();
    let told = picture.split_once("<desc").unwrap().1.split("</desc>").next().unwrap();
    // A terminal of a hundred columns has more ends of lines.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (told, mut lines) = (words(told), 0);
    for line in block.lines().filter(|line| line.contains("✓") || line.contains("Created") || line.contains("Verified"))
    {
        // Times differ.
        let line = words(if line.contains('✓') { line } else { line.rsplit_once(" in ").unwrap().0 });
        assert!(told.contains(&line), "{line}");
        lines += 1;
    }
    assert!(lines >= 9, "{lines}");
}
