//! klab under the name `docker`: `docker exec` on nodes of `klab kind`; everything else is done by the real docker.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::path::Path;

use super::super::Context;
use super::meant::Done;
use super::node::Node;
use klab_operations::behind_klab;
use klab_operations::exec;

/// Docker's exit codes: of itself, and where a command cannot be run.
const FAILED: u8 = 1;
const NOT_RUN: u8 = 126;

/// What was typed after `docker`, where klab was started under that name.
pub fn typed(arguments: &[OsString]) -> Option<&[OsString]> {
    let (program, rest) = arguments.split_first()?;
    Path::new(program).file_stem().is_some_and(|name| name == "docker").then_some(rest)
}

/// `docker exec` as it was typed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Exec {
    reads: bool,
    node: String,
    command: Vec<String>,
}

/// Does what was typed; gives docker's exit code.
pub fn run(context: &Context, words: &[OsString]) -> u8 {
    let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let done = match texts.split_first().filter(|(word, _)| *word == "exec").and_then(|(_, rest)| read(rest)) {
        Some(asked) => match Node::find(context, &asked.node) {
            Ok(Some(node)) => on_node(context, node, &asked),
            Ok(None) => real(words),
            Err(why) => Err(why),
        },
        None => real(words),
    };
    done.unwrap_or_else(|why| {
        context.ui.say(&format!("docker: {why}"));
        FAILED
    })
}

/// The words of `docker exec`; none where an option is not known, or something is missing.
fn read(words: &[String]) -> Option<Exec> {
    let mut exec = Exec::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-i" | "--interactive" | "-it" | "-ti" => exec.reads = true,
            "-t" | "--tty" | "--privileged" => {}
            option if option.starts_with('-') => return None,
            node => {
                node.clone_into(&mut exec.node);
                exec.command = words.cloned().collect();
                return (!exec.command.is_empty()).then_some(exec);
            }
        }
    }
    None
}

/// The real docker, in klab's place.
fn real(words: &[OsString]) -> Done<u8> {
    let none = "this is klab, which answers `docker exec [-it] NODE COMMAND` on nodes of `klab kind`; docker itself, which does \
                everything else, is not on PATH";
    let program = behind_klab::program("docker").ok_or(none)?;
    Err(exec::Command::new(program).args(words.iter().cloned()).replace_klab().to_string())
}

fn on_node(context: &Context, mut node: Node<'_>, asked: &Exec) -> Done<u8> {
    let is_shell = matches!(asked.command.as_slice(), [shell] if shell == "bash" || shell == "sh");
    if is_shell && asked.reads && context.ui.is_interactive() {
        let mut code = 0;
        while let Some(line) = context.ui.asks(&format!("root@{}:{}#", asked.node, node.folder())) {
            let line = line.trim();
            if line == "exit" {
                break;
            }
            if !line.is_empty() {
                code = once(context, &mut node, &["bash".to_owned(), "-c".to_owned(), line.to_owned()], "")?;
            }
        }
        return Ok(code);
    }
    let mut input = String::new();
    if asked.reads && !std::io::stdin().is_terminal() {
        std::io::stdin().read_to_string(&mut input).map_err(|error| format!("reading stdin: {error}"))?;
    }
    once(context, &mut node, &asked.command, &input)
}

fn once(context: &Context, node: &mut Node<'_>, command: &[String], input: &str) -> Done<u8> {
    match node.run(command, input)? {
        Ok(output) => {
            if !output.err.is_empty() {
                context.ui.say(output.err.trim_end_matches('\n'));
            }
            if !output.out.is_empty() {
                context.ui.result(&output.out);
            }
            Ok(output.code)
        }
        Err(why) => {
            context.ui.say(&format!("klab: not done on a node of an embedded cluster: {why}"));
            Ok(NOT_RUN)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_before_the_node() {
        let of = |line: &str| read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let exec = of("-it demo-worker ls -i").unwrap();
        assert_eq!((exec.reads, exec.node.as_str(), exec.command.join(" ").as_str()), (true, "demo-worker", "ls -i"));
        assert!(!of("--privileged demo-worker ls").unwrap().reads);
        assert!([of("demo-worker"), of("-u 1 demo-worker ls"), of("")].iter().all(Option::is_none));
    }

    #[test]
    fn klab_is_docker_under_that_name_alone() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            typed(&words).map(<[OsString]>::len)
        };
        assert_eq!((of("/x/docker exec a ls"), of("klab docker ps")), (Some(3), None));
    }
}
