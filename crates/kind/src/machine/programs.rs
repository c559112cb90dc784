//! The programs of a node that are followed; all others are refused by name.

use std::time::Duration;

use klab_filters::Chain;

use super::files::Found;
use super::sed::Sed;
use super::services::{crictl, openssl, systemctl};
use super::shell::{Flow, Shell, failed};
use super::surroundings::Output;

/// What a refusal names.
const FOLLOWED: &str = "cat, ls, cp, mv, rm, mkdir, touch, tee, echo, printf, sed, cut, grep, head, tail, sort, uniq, wc, test, \
                        sleep, hostname, systemctl (kubelet), crictl, openssl x509 -enddate and kubectl";
/// Shells.
const SHELLS: [&str; 2] = ["sh", "bash"];
/// The longest that `sleep` sleeps.
const MAX_SLEEP: Duration = Duration::from_mins(1);

/// Runs a program.
///
/// # Errors
/// Where what it does is not certain.
pub(super) fn program(
    shell: &mut Shell<'_>,
    words: &[String],
    input: &str,
    output: &mut Output,
) -> Result<Flow, String> {
    let Some((program, rest)) = words.split_first() else { return Ok(Flow::Next) };
    let before = std::mem::take(&mut output.code);
    let name = program.rsplit('/').next().unwrap_or_default();
    let arguments: Vec<&str> = rest.iter().map(String::as_str).collect();
    match (name, arguments.as_slice()) {
        (name, ["-c" | "-ec" | "-lc", script]) if SHELLS.contains(&name) => {
            let outer = std::mem::replace(&mut shell.exits_on_failure, arguments.first() == Some(&"-ec"));
            shell.script(script, input, output)?;
            shell.exits_on_failure = outer;
        }
        (name, [] | ["-s"]) if SHELLS.contains(&name) => {
            shell.script(input, "", output)?;
        }
        ("true" | ":", _) => {}
        ("false", _) => output.code = 1,
        ("exit", [] | [_]) => {
            let code = arguments.first().map_or(Ok(before), |code| code.parse());
            return code.map(Flow::Exit).map_err(|_| "exit takes a number".to_owned());
        }
        ("set", flags) => set(shell, flags)?,
        ("export", assigned) => {
            let assigned = assigned.iter().filter_map(|one| one.split_once('='));
            shell.variables.extend(assigned.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        ("cd", [] | [_]) => {
            let folder = shell.full(arguments.first().unwrap_or(&"/root"));
            if shell.files.find(&folder) != Found::Folder {
                return Ok(failed(output, 1, &format!("bash: cd: {folder}: No such file or directory")));
            }
            shell.folder = folder;
        }
        ("pwd", []) => output.out = format!("{}\n", shell.folder),
        ("hostname", []) => output.out = format!("{}\n", shell.place.node),
        ("whoami", []) => output.out.push_str("root\n"),
        ("sleep", [seconds]) => {
            let seconds: f64 = seconds.trim_end_matches('s').parse().map_err(|_| format!("sleep {seconds}"))?;
            let duration = Duration::try_from_secs_f64(seconds).unwrap_or(MAX_SLEEP);
            shell.outside.pause(duration.min(MAX_SLEEP));
        }
        ("echo", words) => echo(words, output)?,
        ("printf", [format, values @ ..]) => printf(format, values, output)?,
        ("test" | "[", operands) => test(shell, name, operands, output)?,
        ("cat", paths) => cat(shell, paths, input, output),
        ("ls", paths) => list(shell, paths, output)?,
        ("tee", ["-a", paths @ ..] | paths) => {
            let appends = arguments.first() == Some(&"-a");
            input.clone_into(&mut output.out);
            for path in paths {
                write(shell, "tee", path, input, appends, output);
            }
        }
        ("touch" | "mkdir" | "rm" | "mv" | "cp" | "chmod" | "chown", words) => change(shell, name, words, output)?,
        ("sed", words) => sed(shell, words, input, output)?,
        ("cut", words) => cut(words, input, output)?,
        ("grep" | "egrep" | "fgrep" | "head" | "tail" | "sort" | "uniq" | "wc", _) => {
            filter(shell, words, input, output)?;
        }
        ("systemctl", words) => systemctl(shell, words, output)?,
        ("crictl", words) => crictl(shell, words, output)?,
        ("openssl", words) => openssl(shell, words, output)?,
        ("kubectl", _) => {
            let ran = shell.outside.kubectl(rest, input)?;
            output.out.push_str(&ran.out);
            output.err.push_str(&ran.err);
            output.code = ran.code;
        }
        _ => return Err(format!("`{}` is not followed on a node; klab follows {FOLLOWED}", words.join(" "))),
    }
    Ok(Flow::Next)
}

fn set(shell: &mut Shell<'_>, flags: &[&str]) -> Result<(), String> {
    for flag in flags {
        match *flag {
            "-e" | "-eu" | "-eux" | "-euo" | "-euxo" => shell.exits_on_failure = true,
            "+e" => shell.exits_on_failure = false,
            "-o" | "-u" | "pipefail" => {}
            flag => return Err(format!("`set {flag}` is not followed on a node")),
        }
    }
    Ok(())
}

/// Writes a file, or at its end; a program says why it cannot. Whether it was written.
fn write(shell: &mut Shell<'_>, program: &str, path: &str, text: &str, appends: bool, output: &mut Output) -> bool {
    let full = shell.full(path);
    let written = shell.files.write(&full, text, appends);
    if let Err(why) = &written {
        failed(output, 1, &format!("{program}: {path}: {why}"));
    }
    written.is_ok()
}

/// The text of a file; a program says what is wrong with a path that is none, after these words.
fn read(shell: &Shell<'_>, words: &str, path: &str, code: u8, output: &mut Output) -> Option<String> {
    let why = match shell.files.find(&shell.full(path)) {
        Found::File(text) => return Some(text.to_owned()),
        Found::Folder => "Is a directory",
        Found::Nothing => "No such file or directory",
    };
    failed(output, code, &format!("{words} {path}: {why}"));
    None
}

fn cat(shell: &Shell<'_>, paths: &[&str], input: &str, output: &mut Output) {
    if paths.is_empty() {
        output.out.push_str(input);
    }
    for path in paths {
        if *path == "-" {
            output.out.push_str(input);
        } else if let Some(text) = read(shell, "cat:", path, 1, output) {
            output.out.push_str(&text);
        }
    }
}

fn list(shell: &Shell<'_>, words: &[&str], output: &mut Output) -> Result<(), String> {
    let (flags, paths): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with('-'));
    if let Some(flag) = flags.iter().find(|flag| !["-1", "-a", "-A", "-1a", "-a1"].contains(*flag)) {
        return Err(format!("`ls {flag}` is not followed on a node: modes, owners and times are not known"));
    }
    let paths = if paths.is_empty() { vec!["."] } else { paths };
    let is_known = |path: &str| path.starts_with("/etc/kubernetes") || path.starts_with("/opt/");
    for path in &paths {
        let full = shell.full(path);
        match shell.files.find(&full) {
            Found::File(_) => output.out.push_str(&format!("{path}\n")),
            Found::Folder if !is_known(&full) => {
                return Err(format!("what else the image of the node has in {full} is not known"));
            }
            Found::Folder => {
                if paths.len() > 1 {
                    output.out.push_str(&format!("{path}:\n"));
                }
                shell.files.names(&full).iter().for_each(|name| output.out.push_str(&format!("{name}\n")));
            }
            Found::Nothing => {
                failed(output, 2, &format!("ls: cannot access '{path}': No such file or directory"));
            }
        }
    }
    Ok(())
}

/// Programs that change files.
fn change(shell: &mut Shell<'_>, program: &str, words: &[&str], output: &mut Output) -> Result<(), String> {
    let (flags, paths): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with('-') && word.len() > 1);
    let known: &[&str] = match program {
        "rm" => &["-f", "-r", "-rf", "-fr", "-R"],
        "mkdir" => &["-p"],
        "mv" => &["-f", "-v"],
        "cp" => &["-f", "-p", "-a", "-v"],
        _ => &[],
    };
    if let Some(flag) = flags.iter().find(|flag| !known.contains(*flag) || **flag == "-v") {
        return Err(format!("`{program} {flag}` is not followed on a node"));
    }
    let forces = flags.iter().any(|flag| flag.contains('f'));
    match (program, paths.as_slice()) {
        ("chmod" | "chown", [_, paths @ ..]) => {
            for path in paths {
                if shell.files.find(&shell.full(path)) == Found::Nothing {
                    failed(output, 1, &format!("{program}: cannot access '{path}': No such file or directory"));
                }
            }
        }
        ("touch", paths) => {
            for path in paths {
                if shell.files.find(&shell.full(path)) == Found::Nothing {
                    write(shell, "touch", path, "", false, output);
                }
            }
        }
        ("mkdir", paths) => {
            for path in paths {
                let full = shell.full(path);
                let has_parent =
                    flags.contains(&"-p") || shell.files.find(super::files::parent(&full)) == Found::Folder;
                match shell.files.find(&full) {
                    Found::Nothing if has_parent => shell.files.make_folder(&full),
                    Found::Folder if flags.contains(&"-p") => {}
                    Found::Nothing => {
                        let why = format!("mkdir: cannot create directory '{path}': No such file or directory");
                        failed(output, 1, &why);
                    }
                    _ => {
                        failed(output, 1, &format!("mkdir: cannot create directory '{path}': File exists"));
                    }
                }
            }
        }
        ("rm", paths) => {
            let recursive = flags.iter().any(|flag| flag.contains(['r', 'R']));
            for path in paths {
                let full = shell.full(path);
                match shell.files.find(&full) {
                    Found::Nothing if forces => {}
                    Found::Nothing => {
                        failed(output, 1, &format!("rm: cannot remove '{path}': No such file or directory"));
                    }
                    Found::Folder if !recursive => {
                        failed(output, 1, &format!("rm: cannot remove '{path}': Is a directory"));
                    }
                    _ => shell.files.remove(&full),
                }
            }
        }
        ("mv" | "cp", [sources @ .., to]) if !sources.is_empty() => copy(shell, program, sources, to, output)?,
        _ => return Err(format!("`{program} {}` is not followed on a node", words.join(" "))),
    }
    Ok(())
}

/// `cp` and `mv`.
fn copy(shell: &mut Shell<'_>, program: &str, sources: &[&str], to: &str, output: &mut Output) -> Result<(), String> {
    let into = shell.files.find(&shell.full(to)) == Found::Folder;
    for source in sources {
        let (full, name) = (shell.full(source), source.trim_end_matches('/').rsplit('/').next());
        let text = match shell.files.find(&full) {
            Found::File(text) => text.to_owned(),
            Found::Folder => return Err(format!("`{program}` of folders is not followed on a node")),
            Found::Nothing => {
                failed(output, 1, &format!("{program}: cannot stat '{source}': No such file or directory"));
                continue;
            }
        };
        let target = if into { format!("{to}/{}", name.unwrap_or_default()) } else { to.to_owned() };
        if shell.full(&target) == full {
            failed(output, 1, &format!("{program}: '{source}' and '{target}' are the same file"));
            continue;
        }
        if write(shell, program, &target, &text, false, output) && program == "mv" {
            shell.files.remove(&full);
        }
    }
    Ok(())
}

fn test(shell: &Shell<'_>, name: &str, words: &[&str], output: &mut Output) -> Result<(), String> {
    let words = if name == "[" { words.strip_suffix(&["]"]).ok_or("[: missing `]'")? } else { words };
    let (negated, words) = words.strip_prefix(&["!"]).map_or((false, words), |words| (true, words));
    let held = match words {
        [text] | ["-n", text] => !text.is_empty(),
        ["-z", text] => text.is_empty(),
        ["-f", path] => matches!(shell.files.find(&shell.full(path)), Found::File(_)),
        ["-d", path] => shell.files.find(&shell.full(path)) == Found::Folder,
        ["-e", path] => shell.files.find(&shell.full(path)) != Found::Nothing,
        ["-s", path] => matches!(shell.files.find(&shell.full(path)), Found::File(text) if !text.is_empty()),
        [left, "=" | "==", right] => left == right,
        [left, "!=", right] => left != right,
        _ => return Err(format!("`test {}` is not followed on a node", words.join(" "))),
    };
    output.code = u8::from(held == negated);
    Ok(())
}

fn sed(shell: &mut Shell<'_>, words: &[&str], input: &str, output: &mut Output) -> Result<(), String> {
    let (mut in_place, mut extended, mut scripts, mut paths) = (false, false, Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "-i" | "--in-place" => in_place = true,
            "-E" | "-r" => extended = true,
            "-e" => scripts.extend(words.next()),
            flag if flag.starts_with('-') => return Err(format!("`sed {flag}` is not followed on a node")),
            path => paths.push(path),
        }
    }
    if scripts.is_empty() && !paths.is_empty() {
        scripts.push(paths.remove(0));
    }
    let sed = Sed::read(&scripts, extended)?;
    if paths.is_empty() {
        output.out.push_str(&sed.edited(input));
    }
    for path in paths {
        let Some(text) = read(shell, "sed: can't read", path, 2, output) else { continue };
        let edited = sed.edited(&text);
        if in_place {
            write(shell, "sed", path, &edited, false, output);
        } else {
            output.out.push_str(&edited);
        }
    }
    Ok(())
}

fn cut(words: &[&str], input: &str, output: &mut Output) -> Result<(), String> {
    let value = |letter: char| {
        let at = words.iter().position(|word| word.strip_prefix('-').is_some_and(|rest| rest.starts_with(letter)))?;
        let attached = words.get(at)?.get(2..)?;
        if attached.is_empty() { words.get(at.checked_add(1)?).copied() } else { Some(attached) }
    };
    let field: Option<usize> = value('f').and_then(|field| field.parse().ok());
    let (Some(field), true) = (field.and_then(|field| field.checked_sub(1)), words.len() <= 4) else {
        return Err(format!("`cut {}` is not followed on a node; `cut -d= -f2` is", words.join(" ")));
    };
    let delimiter = value('d').unwrap_or("\t");
    for line in input.lines() {
        let mut fields = line.split(delimiter);
        let chosen = if line.contains(delimiter) { fields.nth(field).unwrap_or_default() } else { line };
        output.out.push_str(&format!("{chosen}\n"));
    }
    Ok(())
}

/// Programs that let lines through, of a file or of their input.
fn filter(shell: &Shell<'_>, words: &[String], input: &str, output: &mut Output) -> Result<(), String> {
    let program = words.first().map(String::as_str).unwrap_or_default();
    let (filter, file) = klab_filters::read_of_file(words).map_err(|why| why.0)?;
    let mut text = input.to_owned();
    if let Some(file) = file {
        let code = if program.ends_with("grep") || program == "sort" { 2 } else { 1 };
        let Some(read) = read(shell, &format!("{program}:"), &file, code, output) else { return Ok(()) };
        text = read;
    }
    let mut chain = Chain::new(&[filter]);
    output.out.push_str(&chain.take(&text));
    let (rest, code) = chain.finish();
    output.out.push_str(&rest);
    output.code = u8::try_from(code).unwrap_or(1);
    Ok(())
}

fn echo(words: &[&str], output: &mut Output) -> Result<(), String> {
    let (ends, words) = match words {
        ["-n", rest @ ..] => ("", rest),
        ["-e" | "-ne" | "-en", ..] => return Err("`echo -e` is not followed on a node; `printf` is".to_owned()),
        words => ("\n", words),
    };
    output.out.push_str(&format!("{}{ends}", words.join(" ")));
    Ok(())
}

fn printf(format: &str, values: &[&str], output: &mut Output) -> Result<(), String> {
    let mut values = values.iter();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\' || letter == '%') {
            (letter, false) => output.out.push(letter),
            (kind, true) => match (kind, letters.next()) {
                ('\\', Some('n')) => output.out.push('\n'),
                ('\\', Some('t')) => output.out.push('\t'),
                ('\\', Some('\\')) => output.out.push('\\'),
                ('%', Some('%')) => output.out.push('%'),
                ('%', Some('s')) => output.out.push_str(values.next().unwrap_or(&"")),
                _ => return Err(format!("`printf '{format}'` is not followed on a node")),
            },
        }
    }
    if values.next().is_some() {
        Err("`printf` with more values than its format has is not followed".to_owned())
    } else {
        Ok(())
    }
}
