//! What reaches a terminal is text and klab's own styles, whatever a lab file or a cluster says; and what cannot be
//! written is an error.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::environment::Environment;

/// Text that would write the clipboard, set the title, clear the screen, hide what follows, reverse it.
const ATTACK: &str = "\\u001b]52;c;eA==\\u0007\\u001b]0;x\\u0007\\u001b[2J\\u001b[8m\\u009b2J\\u202e";

fn lab() -> String {
    format!(
        "lab = \"a\"\ntitle = \"{ATTACK}\"\ndescription = \"{ATTACK}\"\n[pool.system]\n[workload.web]\n\
         scheduler_name = \"{ATTACK}\"\nargs = [\"{ATTACK}\"]\nenv = {{ A = \"{ATTACK}\" }}\n\
         [config.c]\ndata = {{ a = \"{ATTACK}\" }}\n\
         [[check]]\nname = \"{ATTACK}\"\nhint = \"{ATTACK}\"\nworkload = \"web\"\nrunning = 1\n\
         [[step]]\nname = \"s\"\ntitle = \"{ATTACK}\"\ntext = \"{ATTACK}\"\nhint = \"{ATTACK}\"\n\
         do = [{{ set = \"web\", image = \"nginx:2\" }}]\ncheck = [{{ workload = \"web\", exist = 1 }}]\n"
    )
}

/// Everything but styles.
fn controls(text: &str) -> Vec<String> {
    let styles = regex::Regex::new("\u{1b}\\[(0|1|2|[39][1-6])?(;(0|1|2|[39][1-6]))*m").unwrap();
    let rest = styles.replace_all(text, "");
    let bad = |c: &char| (c.is_control() && !matches!(c, '\n' | '\t')) || *c == '\u{202e}';
    rest.chars().filter(bad).map(|c| c.escape_unicode().to_string()).collect()
}

#[test]
fn no_control_characters_of_others_reach_the_terminal() {
    let environment = Environment::new();
    environment.write("a.toml", lab());
    environment
        .write("broken.toml", lab() + "[[check]]\n" + &format!("name = \"{ATTACK}\"\n[workload.\"{ATTACK}\"]\n"));
    environment.write("own.toml", "lab = \"b\"\n[pool.system]\n[[manifest]]\npath = \"own.yaml\"\n");
    environment
        .write("own.yaml", "apiVersion: v1\nkind: \"K\u{1b}[2J\"\nmetadata: {name: \"n\u{1b}]0;x\u{7}\u{202e}\"}\n");
    for arguments in [
        &["check", "a.toml"][..],
        &["check", "broken.toml"],
        &["plan", "a.toml"],
        &["plan", "own.toml"],
        &["render", "a.toml"],
        &["render", "own.toml"],
        &["test", "a.toml"],
        &["up", "a.toml", "--timeout", "1s"],
        &["guide"],
        &["step", "--timeout", "1s"],
        &["verify", "--timeout", "1s"],
        &["status"],
        &["explain", "web"],
        &["handout", "a"],
        &["up", "own.toml"],
        &["down", "a"],
    ] {
        let output = environment.command(arguments).env("CLICOLOR_FORCE", "1").output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!text.is_empty(), "{arguments:?}");
        assert_eq!(controls(&text), Vec::<String>::new(), "{arguments:?}: {}", text.escape_debug());
    }
    environment.succeeds(&["down"]);
}

#[test]
fn colours_survive() {
    let environment = Environment::new();
    let output = environment.command(&["verify", "nothing"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("\u{1b}[1m\u{1b}[31merror[K0801]\u{1b}[0m"), "{}", text.escape_debug());
}

#[test]
fn what_cannot_be_written_is_an_error_with_words_and_a_closed_pipe_is_none() {
    let environment = Environment::new();
    environment.write("a.toml", "lab = \"a\"\n[pool.system]\n");
    for arguments in
        [&["render", "a.toml"][..], &["plan", "a.toml"], &["schema"], &["--help"], &["list", "--format", "json"]]
    {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = environment.command(arguments).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {said}");
        assert!(
            said.contains("could not write the result to stdout: No space left on device"),
            "{arguments:?}: {said}"
        );

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = environment.command(arguments).stdout(Stdio::from(writer)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("error"), "{arguments:?}: {said}");
        assert_ne!(output.status.code(), Some(4), "{arguments:?}");
    }
}
