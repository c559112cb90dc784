//! What is run, and what is refused.

use proptest::prelude::*;

use super::{read as read_line, *};

/// What kubectl is to do, where a line is nothing but kubectl.
fn read(typed: &str, files: &Files) -> Result<Invocation, Refusal> {
    match read_line(typed, files)? {
        Typed { source: Source::Kubectl(invocation), filters } if filters.is_empty() => Ok(invocation),
        Typed { source, filters } => Err(Refusal::new(format!("not kubectl alone: {source:?} {filters:?}"))),
    }
}

fn files() -> Files {
    [("pod.yaml", "kind: Pod"), ("affinity/limits.yaml", "kind: LimitRange"), ("patch.json", "{}")]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into()
}

fn run(typed: &str) -> Vec<String> {
    read(typed, &files()).unwrap_or_else(|refusal| panic!("{typed}: {refusal}")).arguments
}

#[test]
fn flags_get_their_whole_names_and_values_behind_an_equals_sign() {
    for (typed, wanted) in [
        ("kubectl get pods", "get pods"),
        ("k get po,deploy", "get po,deploy"),
        ("kubectl get pods -o wide -A", "get --output=wide --all-namespaces=true pods"),
        ("kubectl get pods -Aowide", "get --all-namespaces=true --output=wide pods"),
        ("kubectl get pods -Aw", "get --all-namespaces=true --watch=true pods"),
        ("kubectl get pods -w=false", "get --watch=false pods"),
        ("kubectl -n kube-system get pods", "get --namespace=kube-system pods"),
        ("kubectl get pods -nkube-system -n=x", "get --namespace=kube-system --namespace=x pods"),
        ("kubectl get pods --namespace kube-system", "get --namespace=kube-system pods"),
        ("kubectl get nodes -v6", "get --v=6 nodes"),
        ("kubectl get nodes -v=6 -v 3 --v=0", "get --v=6 --v=3 --v=0 nodes"),
        ("kubectl get nodes -l 'a in (b, c)'", "get --selector=a in (b, c) nodes"),
        (
            "kubectl get node -o jsonpath='{.items[*].spec.taints}'",
            "get --output=jsonpath={.items[*].spec.taints} node",
        ),
        ("kubectl get --raw /apis/apps/v1", "get --raw=/apis/apps/v1"),
        (
            "kubectl taint nodes -l agentpool=extra a=b:NoSchedule",
            "taint --selector=agentpool=extra nodes a=b:NoSchedule",
        ),
        ("kubectl taint nodes n1 a-", "taint nodes n1 a-"),
        ("kubectl apply -f pod.yaml", "apply --filename=pod.yaml"),
        (
            "kubectl apply -f ./pod.yaml,affinity/limits.yaml",
            "apply --filename=pod.yaml --filename=affinity/limits.yaml",
        ),
        ("kubectl apply --dry-run -f pod.yaml", "apply --dry-run=client --filename=pod.yaml"),
        ("kubectl apply --dry-run=server -f pod.yaml", "apply --dry-run=server --filename=pod.yaml"),
        ("kubectl create ns limited", "create namespace limited"),
        ("kubectl create quota q --hard pods=3,cpu=1", "create quota --hard=pods=3,cpu=1 q"),
        (
            "kubectl create deploy a --image=nginx -r 2 -- sh -c 'a | b'",
            "create deployment --image=nginx --replicas=2 a -- sh -c a | b",
        ),
        ("kubectl run a --image nginx -l a=b --restart=Never", "run --image=nginx --labels=a=b --restart=Never a"),
        ("kubectl logs web -f -p -c x", "logs --follow=true --previous=true --container=x web"),
        (
            "kubectl delete pod web --force --grace-period=0 --cascade=orphan",
            "delete --force=true --grace-period=0 --cascade=orphan pod web",
        ),
        (
            "kubectl patch deploy a --patch-file patch.json --type merge",
            "patch --patch-file=patch.json --type=merge deploy a",
        ),
        (
            "kubectl auth can-i get pods --as system:serviceaccount:a:b",
            "auth can-i --as=system:serviceaccount:a:b get pods",
        ),
        ("kubectl get --help", "get --help=true"),
    ] {
        assert_eq!(run(typed).join(" "), wanted, "{typed}");
    }
}

#[test]
fn what_goes_on_until_somebody_ends_it_is_known() {
    for (typed, wanted) in [
        ("kubectl get pods -w", true),
        ("kubectl get pods --watch-only", true),
        ("kubectl get pods -w=false", false),
        ("kubectl logs web -f", true),
        ("kubectl logs web", false),
        ("kubectl apply -f pod.yaml", false),
    ] {
        assert_eq!(read(typed, &files()).unwrap().follows, wanted, "{typed}");
    }
}

#[test]
fn manifests_come_from_the_editor_the_lab_and_the_line() {
    let apply = read("kubectl apply -f pod.yaml", &files()).unwrap();
    assert_eq!((apply.files, apply.input), (vec![("pod.yaml".to_owned(), "pod.yaml".to_owned())], None));
    // A lab's file is called as its guide calls it.
    let of_lab = Files::from([("/srv/labs/a b/limits.yaml".to_owned(), String::new())]);
    let apply = read("kubectl apply -f '/srv/labs/a b/limits.yaml'", &of_lab).unwrap();
    assert_eq!(apply.arguments, ["apply", "--filename=of-the-lab/0/limits.yaml"]);
    let apply = read("klab render scheduling --workload web | kubectl apply -f -", &files()).unwrap();
    let words = ["render", "scheduling", "--workload", "web"].map(str::to_owned);
    assert_eq!(apply.input, Some(Input::Rendered(words.to_vec())));
    assert_eq!(apply.arguments, ["apply", "--filename=-"]);
    for typed in ["kubectl apply -f - <<'YAML'\na: b\nYAML", "cat <<'YAML' | kubectl apply -f -\na: b\nYAML"] {
        assert_eq!(read(typed, &files()).unwrap().input, Some(Input::Text("a: b\n".into())), "{typed}");
    }
}

#[test]
fn what_klab_and_kubectl_print_goes_through_programs() {
    let typed = |line: &str| read_line(line, &files()).unwrap_or_else(|refusal| panic!("{line}: {refusal}"));
    let klab = typed("klab pool scale extra --nodes 2");
    assert_eq!(klab.source, Source::Klab(["pool", "scale", "extra", "--nodes", "2"].map(str::to_owned).to_vec()));
    let az = typed("az aks nodepool list -o table | grep extra");
    assert_eq!(az.source, Source::Klab(["az", "aks", "nodepool", "list", "-o", "table"].map(str::to_owned).to_vec()));
    assert_eq!(az.filters.len(), 1);
    for line in [
        "kubectl get pods | sort | uniq -c",
        "klab explain web | grep -i taint | head -n 3",
        "k get no -w | grep a | wc -l",
    ] {
        assert_eq!(typed(line).filters.len(), 2, "{line}");
    }
    let rendered = typed("klab render a --workload b | kubectl apply -f - | tail -1");
    assert!(matches!(&rendered.source, Source::Kubectl(kubectl) if kubectl.arguments == ["apply", "--filename=-"]));
}

/// Ways out of the console, and slips: each is refused, and its reason says what to do.
#[test]
#[expect(clippy::too_many_lines, reason = "a row for each way out")]
fn whatever_is_not_on_the_list_is_refused_with_a_reason() {
    let mut wrong = String::new();
    for (typed, says) in [
        ("", "type a command"),
        ("kubectl", "what should kubectl do"),
        ("kubectl --help", "`get`, `describe`"),
        ("get pods", "`kubectl get …`"),
        ("vi pod.yaml", "editor"),
        ("watch kubectl get pods", "-w"),
        ("bash -c 'kubectl get pods'", "no other program"),
        ("/usr/bin/kubectl get pods", "no other program"),
        ("KUBECONFIG=/x kubectl get pods", "no other program"),
        ("kubectl get pods | kubectl apply -f -", "only `klab render`"),
        ("klab render a --workload b | kubectl get pods", "add `-f -`"),
        ("cat /etc/passwd | kubectl apply -f -", "in the editor"),
        ("grep web", "behind a command"),
        ("kubectl get pods | awk '{print $1}'", "custom-columns"),
        ("kubectl get pods | grep -P a", "without `-P`"),
        ("kubectl get pods |", "nothing follows the pipe"),
        ("klab verify | kubectl apply -f -", "only `klab render`"),
        ("klab <<'A'\nx\nA", "reads no text"),
        ("cat <<'A'\nx\nA", "gives its text to kubectl"),
        ("kubectl apply -f - <<'A' | cat\nx\nA", "cannot stand behind a pipe"),
        // Another cluster, another identity.
        ("kubectl --kubeconfig /root/.kube/config get pods", "one cluster"),
        ("kubectl get pods --kubeconfig=/root/.kube/config", "one cluster"),
        ("kubectl get pods --context x", "one cluster"),
        ("kubectl get pods --cluster x", "one cluster"),
        ("kubectl get pods --user x", "one cluster"),
        ("kubectl get pods -s https://evil.example", "one cluster"),
        ("kubectl get pods --server=https://evil.example", "one cluster"),
        ("kubectl get pods --token x", "proves itself"),
        ("kubectl get pods --username=x --password=y", "proves itself"),
        ("kubectl get pods --certificate-authority=/x", "proves itself"),
        ("kubectl get pods --client-key=/x", "proves itself"),
        ("kubectl get pods --insecure-skip-tls-verify", "proves itself"),
        ("kubectl get pods --as-uid=1", "proves itself"),
        ("kubectl config view --raw", "one cluster"),
        // Files of the machine.
        ("kubectl apply -f /etc/passwd", "none of them; it has"),
        ("kubectl apply -f/etc/passwd", "none of them"),
        ("kubectl apply -f=/etc/passwd", "none of them"),
        ("kubectl apply --filename /etc/passwd", "none of them"),
        ("kubectl apply --filename=/etc/passwd", "none of them"),
        ("kubectl apply -f pod.yaml,/etc/passwd", "none of them"),
        ("kubectl apply -f 'pod.yaml,\"/etc/passwd\"'", "none of them"),
        ("kubectl apply -f ../../etc/passwd", "none of them"),
        ("kubectl apply -f affinity/../../x", "none of them"),
        ("kubectl apply -f affinity", "none of them"),
        ("kubectl apply -f .", "none of them"),
        ("kubectl apply -f ''", "none of them"),
        ("kubectl apply -f https://evil.example/a.yaml", "no address"),
        ("kubectl apply -f", "needs a value"),
        ("kubectl apply -f -", "<<'YAML'"),
        ("kubectl apply -f /dev/stdin", "none of them"),
        ("kubectl apply -", "<<'YAML'"),
        ("kubectl set env deploy/a -", "<<'YAML'"),
        ("kubectl apply -k .", "single manifests"),
        ("kubectl apply --kustomize=.", "single manifests"),
        ("kubectl apply -R -f pod.yaml", "one by one"),
        ("kubectl get -f pod.yaml --recursive", "one by one"),
        ("kubectl get pods -o custom-columns-file=/etc/passwd", "into the line"),
        ("kubectl get pods -o go-template-file=/etc/passwd", "into the line"),
        ("kubectl get pods -ojsonpath-file=/etc/passwd", "into the line"),
        ("kubectl get pods -o templatefile=/etc/passwd", "into the line"),
        ("kubectl get pods -o go-template-file --template /etc/passwd", "into the line"),
        ("kubectl get pods -o JSON", "one of"),
        ("kubectl get pods -o xml", "one of"),
        ("kubectl create configmap a --from-file=/etc/passwd", "--from-literal"),
        ("kubectl create cm a --from-env-file=/etc/passwd", "--from-literal"),
        ("kubectl create secret generic a --from-file /etc/passwd", "--from-literal"),
        ("kubectl create secret tls a --cert=/x --key=/y", "no files"),
        ("kubectl patch deploy a --patch-file /etc/passwd", "none of them"),
        ("kubectl cluster-info dump --output-directory=/tmp", "--raw"),
        ("kubectl get pods --cache-dir=/tmp/x", "no files"),
        ("kubectl get pods --profile=cpu", "no files"),
        ("kubectl get pods --profile-output=/tmp/x", "no files"),
        ("kubectl get pods --log-file=/tmp/x", "no files"),
        ("kubectl get pods --vmodule=a=9", "no files"),
        // What it would say, and to whom.
        ("kubectl get pods -v=9", "up to 6"),
        ("kubectl get pods -v9", "up to 6"),
        ("kubectl get pods --v 10", "up to 6"),
        ("kubectl get pods -v=-1", "up to 6"),
        ("kubectl get pods -v 0x9", "up to 6"),
        ("kubectl get --raw /", "below `/api`"),
        ("kubectl get --raw /api/../learn", "below `/api`"),
        ("kubectl get --raw //evil.example/api", "below `/api`"),
        ("kubectl get --raw /api/%2e%2e/learn", "below `/api`"),
        ("kubectl get --raw '/api?a=b'", "below `/api`"),
        ("kubectl get --raw https://evil.example/api", "below `/api`"),
        ("kubectl get --raw /apix", "below `/api`"),
        ("kubectl create --raw /api -f pod.yaml", "has no `--raw`"),
        // Other programs, and what goes past the console.
        ("kubectl exec web -- sh", "describe"),
        ("kubectl attach web", "describe"),
        ("kubectl debug node/a -it --image=b", "describe"),
        ("kubectl cp /etc/passwd web:/", "past the console"),
        ("kubectl port-forward web 80", "past the console"),
        ("kubectl proxy --port=1", "past the console"),
        ("kubectl edit deploy web", "editor"),
        ("kubectl diff -f pod.yaml", "dry-run=server"),
        ("kubectl plugin list", "programs"),
        ("kubectl completion bash", "programs"),
        ("kubectl kustomize .", "single manifests"),
        ("kubectl krew install x", "no `krew`"),
        ("kubectl run a --image=b -it", "leave it out"),
        ("kubectl run a --image=b --rm --attach", "leave it out"),
        ("kubectl create -f pod.yaml --edit", "the page has one"),
        ("kubectl delete pods --all -i", "leave it out"),
        ("kubectl get pods -- sh", "nothing can follow"),
        // Slips and tricks.
        ("kubectl get pods --al", "did you mean `--all`"),
        ("kubectl get pods --all_namespaces", "write `--all-namespaces`"),
        ("kubectl get pods --kube_config=/x", "has no `--kube_config`"),
        ("kubectl get pods --watch=perhaps", "`true` or `false`"),
        ("kubectl get pods --show-labls", "`--show-labels`"),
        ("kubectl apply --dry-run server -f pod.yaml --dry-run=x", "one of `none`"),
        ("kubectl g\u{435}t pods", "U+0435"),
        ("kubectl get pods --n\u{430}mespace x", "has no"),
        ("kubectl get pods \u{2212}-kubeconfig", "dash"),
        ("kubectl get pods \u{2014}all", "dash"),
        ("kubectl rollout", "`rollout status`"),
        ("kubectl top", "`top node`"),
        ("kubectl get ''", "empty word"),
    ] {
        match read(typed, &files()) {
            Err(refusal) if refusal.0.contains(says) => {}
            other => wrong.push_str(&format!("{typed}: {other:?}\n")),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn lines_of_any_length_are_answered() {
    for line in [
        "a".repeat(1 << 20),
        format!("kubectl get {}", "a ".repeat(2000)),
        format!("kubectl get {}", "'".repeat(9999)),
        format!("kubectl get pods{}", " -A".repeat(3000)),
        format!("kubectl -{}", "A".repeat(200_000)),
    ] {
        assert!(read(&line, &files()).is_err());
    }
}

#[test]
fn names_of_files_stay_in_their_folder() {
    for name in ["a", "a.yaml", "a/b.yaml", "a_b-c.1/d/e/f"] {
        assert!(value::is_name(name), "{name}");
    }
    let long = "a".repeat(101);
    for name in ["", "/a", "a/", "a//b", "..", "a/../b", ".a", "-a", "a/-b", "a b", "a\0", "ä", "a/b/c/d/e", &long] {
        assert!(!value::is_name(name), "{name}");
    }
}

/// What a flag's name may lead to when the arguments are read again: none but those of the lists.
fn is_listed(argument: &str) -> bool {
    let name = argument.strip_prefix("--").and_then(|rest| rest.split('=').next());
    let Some(name) = name else { return !argument.starts_with('-') };
    let mut known = flags::GLOBAL.iter().chain(verbs::all().flat_map(|verb| verb.flags.iter().copied().flatten()));
    known.any(|flag| flag.name == name)
}

fn pieces() -> impl Strategy<Value = String> {
    let words = [
        "kubectl",
        "get",
        "apply",
        "create",
        "deployment",
        "logs",
        "run",
        "pods",
        "-f",
        "-",
        "--",
        "-A",
        "-n",
        "-o",
        "wide",
        "-w",
        "--all",
        "--raw",
        "/etc/passwd",
        "pod.yaml",
        "--filename",
        "--filename=",
        "--kubeconfig",
        "--kubeconfig=x",
        "-k",
        "-R",
        "-v",
        "9",
        "6",
        "'",
        "\"",
        "\\",
        "|",
        "<<'A'",
        "\n",
        "A",
        "-f-",
        "-fpod.yaml",
        "-it",
        "=",
        "$(",
        "klab",
        "render",
        "--workload",
        "web",
        "\u{202e}",
    ];
    let word = prop_oneof![8 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => ".{0,6}"];
    proptest::collection::vec((word, proptest::sample::select(vec![" ", ""])), 0..12)
        .prop_map(|words| words.into_iter().map(|(word, blank)| word + blank).collect())
}

proptest! {
    /// Whatever is typed: kubectl gets flags of the lists alone, files of the editor, and nothing behind its back.
    #[test]
    fn kubectl_gets_what_is_on_the_lists(typed in pieces(), verb in proptest::sample::select(vec!["", "kubectl ", "kubectl get ", "kubectl apply "])) {
        let files = files();
        let Ok(invocation) = read(&format!("{verb}{typed}"), &files) else { return Ok(()) };
        let flags = invocation.arguments.iter().take_while(|argument| *argument != "--");
        for argument in flags {
            prop_assert!(is_listed(argument), "{typed:?}: {:?}", invocation);
            if let Some(file) = argument.strip_prefix("--filename=") {
                prop_assert!(value::is_name(file) || (file == "-" && invocation.input.is_some()), "{typed:?}: {file}");
            }
        }
        prop_assert!(invocation.files.iter().all(|(file, _)| files.contains_key(file)));
        // A page that sends the words again as they were understood is understood in the same way.
        if invocation.input.is_none() {
            let again: Vec<String> = invocation.arguments.iter().map(|word| klab_operations::exec::quoted(word).into_owned()).collect();
            let again = read(&format!("kubectl {}", again.join(" ")), &files);
            prop_assert_eq!(again.map(|again| again.arguments), Ok(invocation.arguments), "{:?}", typed);
        }
    }
}

#[test]
fn words_for_completion_name_verbs_flags_and_kinds() {
    let words = words();
    let get = words["verbs"]["get"].as_array().unwrap();
    assert!(get.contains(&json!("--output=")) && get.contains(&json!("-A")), "{get:?}");
    assert!(words["verbs"].get("create deployment").is_some());
    assert!(words["kinds"].as_array().unwrap().contains(&json!("nodes")));
}
