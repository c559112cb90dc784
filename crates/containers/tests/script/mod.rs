//! Scripts that are generated from a seed: what people write in pods, in all combinations.

/// A script under construction.
pub(crate) struct Script {
    random: u64,
    depth: usize,
    /// Loops have counters of their own.
    loops: usize,
}

const WORDS: [&str; 12] = ["a", "b", "hello", "x y", "1", "2", "10", "", "a/b", "it's", "two  blanks", "$"];
const NAMES: [&str; 4] = ["v", "w", "x", "y"];
const FILES: [&str; 4] = ["f", "g", "d/f", "h.txt"];

impl Script {
    /// The script of a seed.
    pub(crate) fn generated(seed: u64) -> String {
        let mut script =
            Self { random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D, depth: 0, loops: 0 };
        for _ in 0..8 {
            script.next();
        }
        let begin = if script.below(5) == 0 { "set -e\n" } else { "" };
        let count = 2 + script.below(4);
        let lines: Vec<String> = (0..count).map(|_| script.statement()).collect();
        format!("{begin}{}", lines.join("\n"))
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn below(&mut self, count: u64) -> u64 {
        (self.next() >> 11) % count
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let count = u64::try_from(of.len()).unwrap();
        of[usize::try_from(self.below(count)).unwrap()]
    }

    /// A word in quotes or without, which may hold what stands for something else.
    fn word(&mut self) -> String {
        let (name, word) = (self.one(&NAMES), self.one(&WORDS));
        match self.below(14) {
            0..=2 => format!("\"{}\"", word.replace('$', "\\$")),
            3 => format!("'{}'", word.replace('\'', "")),
            4 => self.one(&["plain", "a-b", "1", "0", "x=1", "-", "c.d"]).to_owned(),
            5 | 6 => format!("\"${name}\""),
            7 => format!("${name}"),
            8 => format!("\"<${{{name}}}>\""),
            9 => format!("$(({} {} {}))", self.below(9), self.one(&["+", "-", "*", "%"]), 1 + self.below(9)),
            10 => format!("\"$(echo {name} {})\"", self.below(5)),
            11 => format!("${{{name}:-none}}"),
            12 => self.one(&["$?", "${y-unset}", "`echo $v`", "\"?\""]).to_owned(),
            _ => self.one(&["\"*\"", "$((v + 1))", "a\\ b", "\"`echo x`\""]).to_owned(),
        }
    }

    fn words(&mut self) -> String {
        let count = 1 + self.below(3);
        (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }

    fn condition(&mut self) -> String {
        let (name, file) = (self.one(&NAMES), self.one(&FILES));
        match self.below(12) {
            0 => "true".to_owned(),
            1 => "false".to_owned(),
            2 => format!("[ -e {file} ]"),
            3 => format!("[ -s {file} ]"),
            4 => format!("[ -d {} ]", self.one(&["d", "f", "."])),
            5 => format!("[ \"${name}\" = {} ]", self.one(&["a", "1", "hello", "''"])),
            6 => {
                format!("[ {} -{} {} ]", self.below(5), self.one(&["eq", "ne", "lt", "le", "gt", "ge"]), self.below(5))
            }
            7 => format!("test -n \"${name}\""),
            8 => format!("! {}", self.condition()),
            9 => format!("[ -z \"${name}\" ] && {}", self.one(&["true", "false"])),
            10 => format!("[ ! -f {file} ]"),
            _ => format!("[ a = a -{} 1 -eq {} ]", self.one(&["a", "o"]), self.below(3)),
        }
    }

    fn body(&mut self) -> String {
        self.depth += 1;
        let count = 1 + self.below(2);
        let lines: Vec<String> = (0..count).map(|_| self.statement()).collect();
        self.depth -= 1;
        lines.join("; ")
    }

    fn statement(&mut self) -> String {
        let plain = self.depth > 2;
        let (name, file) = (self.one(&NAMES), self.one(&FILES));
        match self.below(if plain { 14 } else { 28 }) {
            0..=2 => format!("echo {}", self.words()),
            3 => format!("{name}={}", self.word()),
            4 => format!("printf 'a\\n{name}'; echo -n {}", self.word()),
            5 => format!("expr {} {} {}", self.below(9), self.one(&["+", "-", "'*'", "/", "%"]), 1 + self.below(9)),
            6 => format!("echo {} {} {file}", self.words(), self.one(&[">", ">>"])),
            7 => format!("cat {file} {}", self.one(&["", "2>/dev/null", "|| echo missing"])),
            8 => format!(
                "{} {}",
                self.one(&["touch", "rm -f", "rm", "mkdir -p", "mkdir"]),
                self.one(&["f", "g", "d", "d/f"])
            ),
            9 => self.one(&["ls", "ls d", "ls -a", "ls none"]).to_owned(),
            10 => {
                format!("{} {} {}", self.condition(), self.one(&["&&", "||"]), self.one(&["echo yes", "false", "true"]))
            }
            11 => self.one(&["true", "false", ":", "sleep 0", "mkdir -p d && cd d", "cd ."]).to_owned(),
            12 => self.rare(),
            13 => format!("echo $? {}", self.one(&[">&2", "1>&2", "2>&1", ""])),
            14 | 15 => format!("if {}; then {}; else {}; fi", self.condition(), self.body(), self.body()),
            16 | 17 => format!("for {name} in {}; do {}; done", self.words(), self.body()),
            18 => {
                self.loops += 1;
                let counter = format!("i{}", self.loops);
                let end = self.one(&["", "; break", "; continue"]);
                let most = self.below(4);
                format!(
                    "{counter}=0; while [ ${counter} -lt {most} ]; do {counter}=$(({counter}+1)); {}{end}; done",
                    self.body()
                )
            }
            19 => format!("until {}; do {}; break; done", self.condition(), self.body()),
            20 => format!("for {name} in $(seq {}); do {}; done", self.below(4), self.body()),
            21 => {
                let end = self.one(&["", "; return 3", "; return"]);
                let (depth, body) = (self.depth, self.body());
                format!("fn{depth}() {{ {body}{end}; }}; fn{depth}; echo $?")
            }
            22 => format!("( {} ); echo after $?", self.body()),
            23 => {
                // A program that reads the file that it writes may go on for ever.
                let (out, body) = (format!("out{}", self.depth), self.body());
                format!("{{ {body}; }} {} {out}; cat {out}", self.one(&[">", ">>", "2>"]))
            }
            24 => format!("{name}=$( {} ); echo \"${name}\"", self.body()),
            25 => format!("{name}={} echo {}; echo ${name}", self.one(&["1", "q"]), self.words()),
            26 => format!(
                "if {}; then {}; elif {}; then {}; fi",
                self.condition(),
                self.body(),
                self.condition(),
                self.body()
            ),
            _ => format!("{} && {} || {}", self.condition(), self.statement_plain(), self.statement_plain()),
        }
    }

    fn statement_plain(&mut self) -> String {
        self.depth += 3;
        let statement = self.statement();
        self.depth -= 3;
        statement
    }

    /// What klab mostly refuses.
    fn rare(&mut self) -> String {
        if self.below(6) > 0 {
            return self
                .one(&["date >/dev/null", "cat f g 2>&1", "stat -c %a:%s f", "seq 2 4", "id -u >/dev/null"])
                .to_owned();
        }
        self.one(&[
            "case $v in a|1) echo a;; *) echo b;; esac",
            "cat <<EOF\n$v\nEOF",
            "echo a b | cat",
            "echo a b | while read -r v; do echo $v; done",
            "sh -c 'echo \"$1\" $v; exit 4' sh a; echo $?",
            "printf '%s-%03d\\n' a 7",
            "echo * ${#v} ${w%b} $#",
            "set +e",
            "echo 'a\\tb'",
            "echo -e 'a\\nb'",
            "echo -n x",
            "echo {1..3} {a,b}",
            "seq 3",
            "seq 3 -1 1",
            "expr 3 + 4",
            "expr 5 - 5",
            "exit 2",
            "set -- p q; echo $1",
            "export v=5; sh -c 'echo $v'",
            "w=7 sh -c 'echo $w'",
            "[ a == a ] && echo same",
            "basename a/b",
            "printf '%05d|%s\\n' 42",
            "unset v",
            "eval 'echo $v'",
            "shift",
            "break",
            "IFS= read -r line < f",
            "echo $((08)) $((1 << 2))",
            "timeout 5 echo in time",
            "command -v echo",
            "true & wait",
            "trap 'echo end' EXIT",
            "[[ a = a ]] && echo yes",
            "echo ~",
        ])
        .to_owned()
    }
}
