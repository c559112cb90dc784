//! klab's own `grep` and the others beside those of the machine.

use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

/// The words of a line: what stands between single quotes is one.
fn words(line: &str) -> Vec<String> {
    let pieces = line.split('\'').enumerate();
    let words = pieces.flat_map(|(at, piece)| match at % 2 {
        0 => piece.split_whitespace().map(str::to_owned).collect(),
        _ => vec![piece.to_owned()],
    });
    words.collect()
}

/// What comes out of a pipe of programs, however the text is cut, and the exit code.
fn filtered(pipe: &str, text: &str, cut: usize) -> (String, i32) {
    let filters: Vec<Filter> = pipe.split(" | ").map(|program| read(&words(program)).unwrap()).collect();
    let mut chain = Chain::new(&filters);
    let (first, second) = text.split_at(text.floor_char_boundary(cut));
    let mut out = chain.take(first);
    out.push_str(&chain.take(second));
    let (rest, code) = chain.finish();
    (out + &rest, code)
}

/// The same by the machine's own programs.
fn by_a_shell(pipe: &str, text: &str) -> (String, i32) {
    let mut shell = Command::new("bash");
    shell.args(["-c", pipe]).env("LC_ALL", "C.UTF-8").env("POSIXLY_CORRECT", "");
    shell.env_remove("POSIXLY_CORRECT").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut shell = shell.spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    let text = text.to_owned();
    // `head` may have gone before all is written.
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = shell.wait_with_output().unwrap();
    let _ = writer.join();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

/// A table as kubectl prints it, the lines of a description, and what is odd.
const TEXTS: [&str; 4] = [
    "NAME      READY   STATUS    RESTARTS   AGE\nweb-1     1/1     Running   0          9s\nweb-2     0/1     Pending   0          10s\n\
     api-1     1/1     Running   12         9s\nweb-3     1/1     Running   3          1m\n",
    "Name:   web\nTaints:             dedicated=special:NoSchedule\n                    a=b:NoExecute\nUnschedulable:      false\n\
     Lease:\n  HolderIdentity:  a.b\nEvents:\n  Warning  FailedScheduling  0/3 nodes are available\n",
    "b\na\na\n\nc d\n10\n9\n-1\n2.5\nß über\nno end",
    "",
];

const PIPES: [&str; 63] = [
    "grep web",
    "grep -i WEB",
    "grep -v web",
    "grep -c Running",
    "grep -n -A1 Taints",
    "grep -A 8 Events",
    "grep -B1 Pending",
    "grep -C1 -n Taints",
    "grep -1 Taints",
    "grep -A1 1/1",
    "grep --after-context=2 web-1",
    "grep -E 'web|api'",
    "egrep 'web-[12]'",
    "grep 'web\\|api'",
    "grep -e web -e api",
    "grep -F a.b",
    "grep a.b",
    "grep '^web.*Running'",
    "grep 'Running *[0-9]\\+'",
    "grep -E 'Running +[0-9]{2}'",
    "grep -w b",
    "grep -x a",
    "grep -o 'web-[0-9]'",
    "grep -on a",
    "grep -m 2 web",
    "grep -m1 -A1 web",
    "grep '[[:upper:]]\\{4\\}'",
    "grep '[]a]'",
    "grep '[^a-z]'",
    "grep '*'",
    "grep 'a\\.b'",
    "grep -E '(a|b)$'",
    "grep -vc a",
    "grep -v '^$'",
    "grep nothing-has-this",
    "head",
    "head -n 2",
    "head -2",
    "head -n -2",
    "head -c 20",
    "head -1",
    "tail",
    "tail -n 1",
    "tail -2",
    "tail -n +2",
    "tail -c 7",
    "tail -c 7 | sort",
    "tail --lines=3",
    "sort",
    "sort -r",
    "sort -n",
    "sort -u",
    "sort -nr",
    "sort -k 4n",
    "sort -k 3,3 -k 4nr",
    "sort -k4,4n -u",
    "sort -t: -k 2",
    "sort | uniq",
    "sort | uniq -c | sort -rn | head -n 2",
    "uniq -d",
    "uniq -u",
    "wc -l",
    "wc",
];

#[test]
fn they_do_what_the_programs_of_their_names_do() {
    for text in TEXTS {
        for pipe in PIPES {
            for cut in [0, 7, 40] {
                assert_eq!(filtered(pipe, text, cut), by_a_shell(pipe, text), "{pipe}, on\n{text}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn they_do_so_on_any_text(text in "[ab1 \n.:-]{0,60}", one in 0..PIPES.len(), other in 0..PIPES.len(), cut in 0usize..60) {
        let pipe = format!("{} | {}", PIPES[one], PIPES[other]);
        prop_assert_eq!(filtered(&pipe, &text, cut), by_a_shell(&pipe, &text), "{}", pipe);
    }

    #[test]
    fn no_pattern_is_a_fault(pattern in ".{0,12}", text in ".{0,20}") {
        if let Ok(filter) = read(&["grep".to_owned(), "-e".to_owned(), pattern]) {
            let mut chain = Chain::new(&[filter]);
            let _ = chain.take(&text);
            let _ = chain.finish();
        }
    }
}

#[test]
fn what_is_not_done_here_is_refused_with_what_is() {
    for (pipe, says) in [
        ("grep", "what should"),
        ("grep -P a", "`-P`"),
        ("grep --color a", "`--color`"),
        ("grep a file.txt", "no file `file.txt`"),
        ("grep '\\d'", "[0-9]"),
        ("grep '[a'", "not closed"),
        ("grep -E '('", "-F"),
        ("grep -A x a", "whole numbers"),
        ("head -n x", "whole numbers"),
        ("head a.txt", "no file"),
        ("tail -f", "`-f`"),
        ("sort -h", "`-h`"),
        ("sort -k 2.3", "fields"),
        ("sort -t ab", "one letter"),
        ("uniq -f1", "`-f`"),
        ("wc -L", "`-L`"),
        ("awk '{print $7}'", "custom-columns"),
        ("xargs kubectl delete", "by a label"),
        ("kubectl apply -f -", "klab render"),
        ("sed s/a/b/", "`grep`"),
    ] {
        let refusal = read(&words(pipe)).unwrap_err().to_string();
        assert!(refusal.contains(says), "{pipe}: {refusal}");
    }
    assert!(read(&[]).is_err());
}
