//! An API that is to answer nobody for a while.

use klab_cluster::SILENCE_ANNOTATION;

use super::*;

fn ask(lab: &mut Lab, text: Option<&str>) {
    let change = |namespace: &mut Value| namespace["metadata"]["annotations"][SILENCE_ANNOTATION] = json!(text);
    lab.change(NAMESPACES, "kube-system", change);
}

fn is_asked(lab: &Lab) -> bool {
    let namespace = lab.cluster.get(NAMESPACES, "", "kube-system").expect("the namespace").value();
    !namespace["metadata"]["annotations"][SILENCE_ANNOTATION].is_null()
}

#[test]
fn silence_begins_after_the_answer_and_ends_by_itself() {
    let mut lab = Lab::new(1);
    ask(&mut lab, Some("20s"));
    assert!(!lab.cluster.is_silent(), "whoever asked for it has an answer first");
    lab.pass(SignedDuration::from_secs(1));
    assert!(lab.cluster.is_silent());
    lab.apply(deployment("web", 1));
    lab.pass(SignedDuration::from_secs(18));
    assert!(lab.cluster.is_silent() && is_asked(&lab));
    assert!(lab.pods().iter().all(|pod| pod["status"]["phase"] == "Running"), "what is in the cluster goes on");
    lab.pass(SignedDuration::from_secs(2));
    assert!(!lab.cluster.is_silent() && !is_asked(&lab));
}

#[test]
fn nobody_is_locked_out_for_good() {
    let mut lab = Lab::new(1);
    ask(&mut lab, Some("1000h"));
    lab.pass(SignedDuration::from_mins(4));
    assert!(lab.cluster.is_silent());
    lab.pass(SignedDuration::from_mins(2));
    assert!(!lab.cluster.is_silent() && !is_asked(&lab));
    for nonsense in ["", "soon", "-5s", "0s"] {
        ask(&mut lab, Some(nonsense));
        lab.pass(SignedDuration::from_secs(2));
        assert!(!lab.cluster.is_silent(), "{nonsense}");
    }
    ask(&mut lab, Some("1m"));
    lab.pass(SignedDuration::from_secs(2));
    ask(&mut lab, None);
    assert!(!lab.cluster.is_silent(), "who is inside can end it");
}
