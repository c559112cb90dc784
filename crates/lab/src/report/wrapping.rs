//! Lines that fit into a terminal: broken between words, what follows moved in. A command stays whole, to be pasted.

use super::commands::is_command;

/// The text in lines of at most `width` columns; a command that is longer has a line of its own.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let ended = line.ends_with('\n');
        wrap(line.trim_end_matches('\n'), width, &mut out);
        if ended {
            out.push('\n');
        }
    }
    out
}

fn wrap(line: &str, width: usize, out: &mut String) {
    if columns(line) <= width || is_command(line) {
        out.push_str(line);
        return;
    }
    let indent = line.len() - line.trim_start_matches(' ').len();
    // A continuation is distinguished from a beginning.
    let hanging = (indent + 4).min(width / 2);
    let (mut used, mut fresh) = (0, true);
    for word in words(line) {
        let (blanks, text) = word.split_at(word.len() - word.trim_start_matches(' ').len());
        if !fresh && used + blanks.len() + columns(text) > width {
            out.push('\n');
            out.push_str(&" ".repeat(hanging));
            out.push_str(text);
            used = hanging + columns(text);
        } else {
            out.push_str(word);
            used += columns(word);
        }
        fresh = false;
    }
}

/// The words, each with the blanks before it; what is in back quotes is one.
fn words(line: &str) -> Vec<&str> {
    let (mut words, mut start, mut quoted, mut in_word) = (Vec::new(), 0, false, false);
    for (at, letter) in line.char_indices() {
        if letter == '`' {
            quoted = !quoted;
        }
        if letter == ' ' && !quoted && in_word {
            words.push(&line[start..at]);
            (start, in_word) = (at, false);
        } else if letter != ' ' {
            in_word = true;
        }
    }
    words.push(&line[start..]);
    words
}

/// How many columns a text takes; colours take none.
fn columns(text: &str) -> usize {
    let (mut count, mut escaped) = (0, false);
    for letter in text.chars() {
        match (escaped, letter) {
            (false, '\u{1b}') => escaped = true,
            (true, 'm') => escaped = false,
            (false, _) => count += 1,
            (true, _) => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_lines_go_on_moved_in_and_commands_stay_whole() {
        let text = "  ✗ failed  web: 1 of 3 pods run on pool special\n      fix: `kubectl taint nodes node-1 a=b:NoSchedule-`\n";
        insta::assert_snapshot!(wrapped(text, 32), @"
          ✗ failed  web: 1 of 3 pods run
              on pool special
              fix:
                  `kubectl taint nodes node-1 a=b:NoSchedule-`
        ");
        assert_eq!(wrapped(text, 100), text);
        assert_eq!(wrapped("\u{1b}[1mab\u{1b}[0m cd", 5), "\u{1b}[1mab\u{1b}[0m cd");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_only_what_cannot_be_broken_is_wider(text in "[a-z` \n]{0,120}", width in 8usize..60) {
            let broken = wrapped(&text, width);
            let bare = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(bare(&broken), bare(&text));
            for line in broken.lines().filter(|line| !line.contains('`') && columns(line) > width) {
                prop_assert!(line.split_whitespace().count() <= 1, "{:?}", line);
            }
        }
    }
}
