//! `--controllers`, as kube-controller-manager takes it: `*` for all, `-NAME` for all but one, `NAME` for that one.

use klab_cluster::Controller;

use klab_operations::error::{Code, Error, Result};

/// Those that are to do nothing.
///
/// # Errors
/// When a name is none of a controller that can be switched off, or nothing says which ones are to act.
pub(super) fn switched_off(words: &[String]) -> Result<Vec<Controller>> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for word in words.iter().filter(|word| *word != "*") {
        let (name, acts) = word.strip_prefix('-').map_or((word.as_str(), true), |name| (name, false));
        match name.parse::<Controller>() {
            Ok(controller) => known.push((controller, acts)),
            Err(error) => unknown.push(error),
        }
    }
    if let [.., last] = unknown.as_slice() {
        let names: Vec<String> = unknown.iter().map(|unknown| format!("`{}`", unknown.name)).collect();
        let text = last.to_string();
        let there_are = text.rsplit_once("there are: ").map_or("", |(_, names)| names);
        let message = format!("no controllers that can be switched: {}", names.join(", "));
        return Err(Error::message(Code::Flags, message).hint(format!("there are: {there_are}")));
    }
    let all = words.iter().any(|word| word == "*");
    if !all && !known.iter().any(|(_, acts)| *acts) {
        return Err(Error::message(Code::Flags, format!("with `--controllers {}` none would act", words.join(",")))
            .hint(format!("`--controllers '*,{}'` leaves the others", words.join(","))));
    }
    // The first word on a controller counts.
    let acts = |controller: &Controller| known.iter().find(|(one, _)| one == controller).map_or(all, |(_, acts)| *acts);
    Ok(Controller::ALL.iter().copied().filter(|one| one.is_optional() && !acts(one)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off(words: &str) -> Result<Vec<&'static str>, String> {
        let words: Vec<String> = words.split(',').map(str::to_owned).collect();
        switched_off(&words).map(|off| off.iter().map(|one| one.name()).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn words_are_those_of_the_controller_manager() {
        assert_eq!(off("*"), Ok(vec![]));
        assert_eq!(off("*,-kubelet,-deployment-controller"), Ok(vec!["kubelet", "deployment"]));
        assert_eq!(off("-kubelet,kubelet,*"), Ok(vec!["kubelet"]), "the first word counts");
        let only = off("deployment,replicaset").unwrap();
        assert!(!only.contains(&"deployment") && only.contains(&"kubelet") && only.contains(&"kube-scheduler"));
        assert!(!only.contains(&"serviceaccount"), "what makes a namespace what it is always acts");
    }

    #[test]
    fn what_is_no_choice_is_refused_all_at_once() {
        assert_eq!(
            off("*,-kubelt,deploymnet").unwrap_err(),
            "no controllers that can be switched: `kubelt`, `deploymnet`"
        );
        assert_eq!(off("-kubelet").unwrap_err(), "with `--controllers -kubelet` none would act");
        assert!(off("").unwrap_err().contains("``"));
        assert!(off("serviceaccount").is_err(), "it cannot be switched");
    }
}
