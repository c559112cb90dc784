//! Lab files that nobody wrote: mutated ones and generated ones through everything klab does before `up`, in process.
//! Nothing panics, and everything ends. `KLAB_HOSTILE=100000` tries this many instead of a few.

use klab_lab::plan::{Observed, plan};
use klab_lab::spec::{LoadOptions, Provider, parse_bytes};
use klab_operations::forecast::forecast;
use klab_operations::render::render;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// So many lab files, or as many as the environment says.
fn cases(few: u32) -> Config {
    let asked = std::env::var("KLAB_HOSTILE").ok().and_then(|count| count.parse().ok());
    Config { cases: asked.unwrap_or(few), failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() }
}

/// Everything that `check`, `plan`, `render` and `guide` do with a lab file, for every provider.
fn try_all(bytes: &[u8]) {
    for provider in Provider::ALL {
        let options = LoadOptions { provider: Some(provider), ..LoadOptions::default() };
        match parse_bytes("lab.toml", bytes.to_vec(), &options) {
            Err(problems) => assert!(!problems.to_string().is_empty() && problems.errors() > 0),
            Ok(lab) => {
                let _ = lab.warnings.to_string();
                match render(&lab) {
                    Err(problems) => assert!(problems.errors() > 0),
                    Ok(manifests) => {
                        let actions = plan(&lab, &Observed::default());
                        let _ = actions.iter().map(ToString::to_string).collect::<String>();
                        let small = lab.pools.iter().map(|pool| *pool.nodes).sum::<u32>() <= 50
                            && lab.workloads.iter().filter_map(|one| one.replicas.as_deref()).sum::<u32>() <= 50;
                        if small {
                            let _ = forecast(&lab, &manifests, None);
                        }
                    }
                }
            }
        }
    }
}

fn shipped() -> Vec<Vec<u8>> {
    ["labs", "tests/labs/valid", "tests/labs/lesson"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// What is put into a lab file: pieces of its own language, and what other parsers stumble over.
const PIECES: &[&str] = &[
    "\"\"\"",
    "'''",
    "\"",
    "[",
    "]",
    "[[step]]",
    "[pool.x]",
    "{",
    "}",
    "=",
    "\n",
    "#",
    "\0",
    "\u{feff}",
    "\u{202e}",
    "99999999999999999999",
    "-1",
    "0x",
    "1e400",
    "nan",
    "true",
    "''",
    "\\u001b[2J",
    "\\",
    "{{ vars.x }}",
    "{{",
    "{%",
    "{% for a in range(end=9999) %}{% endfor %}",
    "{% set_global x = x ~ x %}",
    "{% if",
    "{% endif %}",
    "{% raw %}",
    "{{ vars | json | json | json }}",
    "{{ __tera_context }}",
    "{{ 1/0 }}",
    "{{ [[[[]]]] }}",
    "{# #}",
    "nodes = 1000\n",
    "replicas = 10000\n",
    "key=value:NoSchedule",
    "999999999d",
    "1Ei",
    "9e18",
    "0",
    "NoExecute",
    "pool:",
    "object.a == 1",
    "[1].all(x, x == object.a)",
    "*",
    "/",
    "..",
    "ä",
    "\u{1f600}",
    "\t",
    "\r\n",
    "&a [*a]",
    "!!binary",
    "---\n",
    "kind: List",
];

/// One change of a text.
#[derive(Clone, Debug)]
enum Change {
    Insert(prop::sample::Index, &'static str),
    Remove(prop::sample::Index, usize),
    /// A copy of a piece somewhere else.
    Copy(prop::sample::Index, prop::sample::Index, usize),
    Flip(prop::sample::Index, u8),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        4 => (place(), prop::sample::select(PIECES)).prop_map(|(at, piece)| Change::Insert(at, piece)),
        2 => (place(), 1_usize..40).prop_map(|(at, length)| Change::Remove(at, length)),
        2 => (place(), place(), 1_usize..200).prop_map(|(from, to, length)| Change::Copy(from, to, length)),
        1 => (place(), 1_u8..).prop_map(|(at, bits)| Change::Flip(at, bits)),
    ]
}

fn changed(bytes: &mut Vec<u8>, change: &Change) {
    let size = bytes.len() + 1;
    match change {
        Change::Insert(at, piece) => {
            let at = at.index(size);
            bytes.splice(at..at, piece.bytes());
        }
        Change::Remove(at, length) => {
            let at = at.index(size);
            bytes.drain(at..(at + length).min(bytes.len()));
        }
        Change::Copy(from, to, length) => {
            let from = from.index(size);
            let piece = bytes[from..(from + length).min(bytes.len())].to_vec();
            let to = to.index(size);
            bytes.splice(to..to, piece);
        }
        Change::Flip(at, bits) => {
            if let Some(byte) = bytes.get_mut(at.index(size)) {
                *byte ^= bits;
            }
        }
    }
}

#[test]
fn mutated_lab_files_are_read_or_refused() {
    let labs = shipped();
    let mutated = (prop::sample::select(labs), prop::collection::vec(change(), 1..6));
    TestRunner::new(cases(150))
        .run(&mutated, |(mut bytes, changes)| {
            for change in &changes {
                changed(&mut bytes, change);
            }
            try_all(&bytes);
            Ok(())
        })
        .unwrap();
}

/// A value of a lab file: fitting, strange, or a template that is expensive.
fn value() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        prop::sample::select(PIECES).prop_map(|piece| piece.escape_default().to_string()),
        "[a-z]{1,12}".prop_map(|text| text),
        (1_u32..4).prop_map(|levels| {
            let open: String = (0..levels).map(|level| format!("{{% for v{level} in range(end=99999) %}}")).collect();
            open + "x" + &"{% endfor %}".repeat(levels as usize)
        }),
        (0_u8..4).prop_map(|number| format!("{{{{ vars.v{number} }}}}").repeat(10)),
        (1_usize..12).prop_map(|levels| {
            (0..levels).fold("object.a".to_owned(), |inner, level| format!("[1,2,3,4].all(v{level}, {inner} == 1)"))
        }),
    ];
    prop_oneof![
        4 => text.prop_map(|text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => prop::sample::select(&["true", "0", "1", "-1", "1e9", "[]", "{}", "[[]]", "2026-01-01"]).prop_map(str::to_owned),
    ]
}

const KEYS: &[&str] = &[
    "replicas",
    "image",
    "nodes",
    "size",
    "labels",
    "taints",
    "tolerations",
    "node_selector",
    "affinity",
    "topology_spread",
    "kind",
    "requests",
    "limits",
    "zones",
    "autoscale",
    "spot",
    "max_pods",
    "title",
    "name",
    "text",
    "hint",
    "do",
    "check",
    "workload",
    "running",
    "pending",
    "on",
    "spread",
    "cel",
    "object",
    "exist",
    "within",
    "hold",
    "yaml",
    "data",
    "env",
    "command",
    "deferred",
    "priority_class",
    "kubernetes",
    "mode",
    "os",
    "cpu",
    "memory",
    "v0",
    "v1",
    "v2",
    "v3",
];

const TABLES: &[&str] = &[
    "[vars]",
    "[pool.p0]",
    "[pool.p1]",
    "[workload.w0]",
    "[workload.w1]",
    "[config.c]",
    "[secret.s]",
    "[namespace.n]",
    "[[manifest]]",
    "[[check]]",
    "[[step]]",
    "[[step.check]]",
    "[[step.before]]",
    "[sim]",
    "[kind]",
    "[aks]",
];

fn generated() -> impl Strategy<Value = String> {
    let entry = (prop::sample::select(KEYS), value()).prop_map(|(key, value)| format!("{key} = {value}\n"));
    let table = (prop::sample::select(TABLES), prop::collection::vec(entry, 0..5))
        .prop_map(|(table, entries)| format!("{table}\n{}", entries.concat()));
    prop::collection::vec(table, 0..8).prop_map(|tables| format!("lab = \"a\"\n[pool.system]\n{}", tables.concat()))
}

#[test]
fn generated_lab_files_are_read_or_refused() {
    TestRunner::new(cases(60))
        .run(&generated(), |text| {
            try_all(text.as_bytes());
            Ok(())
        })
        .unwrap();
}

#[test]
fn lab_files_that_would_fill_the_machine_are_refused() {
    let grown: String =
        (1..9).map(|n| format!("v{n} = \"{}\"\n", format!("{{{{ vars.v{} }}}}", n - 1).repeat(10))).collect();
    let turns = "{% for i in range(end=99999) %}{% for j in range(end=99999) %}{% endfor %}{% endfor %}";
    let many =
        |count: usize, line: &str| -> String { (0..count).map(|n| line.replace("{n}", &n.to_string())).collect() };
    for (more, code) in [
        (format!("[vars]\nv0 = \"0123456789abcdef\"\n{grown}"), "template"),
        (format!("[config.c]\ndata = {{ a = \"{turns}\" }}\n"), "template"),
        (format!("[config.c]\ndata = {{ a = \"{}\" }}\n", "{% if true %}".repeat(20_000)), "template"),
        (format!("[config.c]\ndata = {{ a = \"{}\" }}\n", "{{ ((((".repeat(20_000)), "template"),
        (many(5_000, "[pool.p{n}]\nnodes = 0\n"), "too-many"),
        (many(5_000, "[[check]]\n"), "subject"),
        (format!("[vars]\n{}", many(5_000, "a{n} = 1\n")), "too-many"),
        (many(5_000, "[namespace.n{n}]\n"), "too-many"),
        (many(5_000, "k{n} = 1\n"), "unknown-key"),
    ] {
        let text = format!("lab = \"a\"\n[pool.system]\n{more}");
        let problems = parse_bytes("lab.toml", text.into_bytes(), &LoadOptions::default()).unwrap_err();
        let codes: std::collections::BTreeSet<_> = problems.iter().map(|problem| problem.code.name()).collect();
        assert!(codes.contains(code), "{codes:?}");
        assert!(problems.to_string().len() < 1 << 20, "{} are shown", problems.iter().count());
    }
}
