//! Pure: the page a learner is given, from the lab and where its cluster is reached. It holds no credentials.

use std::path::Path;

use tera::Context;

use klab_lab::spec::template::{Limited, engine};
use klab_lab::spec::{Lab, Source};
use klab_operations::exec::quoted;
use klab_operations::lesson::words::title;

/// The built-in template.
const TEMPLATE: &str = include_str!("../templates/handout.md.tera");

/// The page of one lab or seat in Markdown; `template` in place of the built-in one. `commands` are the lines to type for each
/// step.
///
/// # Errors
/// What is wrong with the template, with its place.
pub fn handout(
    lab: &Lab,
    seat: Option<u32>,
    kubeconfig: &Path,
    template: Option<&str>,
    commands: &[Vec<String>],
) -> anyhow::Result<String> {
    let steps: Vec<_> = lab
        .steps
        .iter()
        .enumerate()
        .map(|(number, step)| {
            let commands = commands.get(number).map_or(&[][..], Vec::as_slice);
            serde_json::json!({ "name": step.name.value, "title": title(step), "text": step.text, "commands": commands })
        })
        .collect();
    let mut context = Context::new();
    context.insert("name", &lab.name.value);
    context.insert("title", lab.shown_title());
    context.insert("description", &lab.description);
    context.insert("provider", lab.provider.as_str());
    context.insert("seat", &seat);
    context.insert("kubeconfig", &*quoted(&kubeconfig.display().to_string()));
    context.insert("steps", &steps);
    context.insert("vars", &lab.vars);
    let template = template.unwrap_or(TEMPLATE);
    let text = Limited::new(engine()).render(template, &context).map_err(|problem| {
        let place = problem.span.as_ref().map(|span| format!("line {}: ", Source::new("", template).line(span.start)));
        anyhow::Error::msg(format!("{}{}", place.unwrap_or_default(), problem.label))
    })?;
    Ok(format!("{}\n", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    fn lab() -> Lab {
        let text = "lab = \"taints\"\ntitle = \"Taints & tolerations\"\ndescription = \"A node <refuses> pods.\"\n\
                    [pool.main]\nmode = \"system\"\nnodes = 1\nsize = \"Standard_B2ms\"\n\
                    [[step]]\nname = \"taint\"\ntitle = \"Repel pods\"\ntext = \"Type `kubectl taint`.\"\nhint = \"not told\"\n\
                    do = [{ taint = \"a=b:NoSchedule\", nodes = \"pool:main\" }]\n\
                    [[step]]\nname = \"look\"\n";
        parse("lab.toml", text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
    }

    #[test]
    fn a_page_says_where_the_cluster_is_and_what_to_do() {
        let commands = [vec!["kubectl taint nodes --all a=b:NoSchedule".to_owned()], Vec::new()];
        let page = handout(&lab(), Some(7), Path::new("/state/labs/taints-07/kubeconfig"), None, &commands).unwrap();
        insta::assert_snapshot!(page, @"
        # Taints & tolerations

        **Seat 7** · lab `taints`

        A node <refuses> pods.

        ## Your cluster

            export KUBECONFIG=/state/labs/taints-07/kubeconfig
            kubectl get nodes

        It is yours alone: an embedded cluster, in which everything is real but the containers.
        `klab verify taints` says whether everything is as it should be, and if not, why.

        ## Steps

        `klab guide taints` shows the step you are at.

        ### 1 · Repel pods

        Type `kubectl taint`.

        ```sh
        kubectl taint nodes --all a=b:NoSchedule
        ```

        ### 2 · look
        ");
    }

    #[test]
    fn a_template_of_the_authors_own_and_its_mistakes() {
        let page = |template| handout(&lab(), None, Path::new("/k"), Some(template), &[]);
        assert_eq!(
            page("{{ name }}: {{ steps | length }} steps{% if seat %}!{% endif %}").unwrap(),
            "taints: 2 steps\n"
        );
        let problem = format!("{:#}", page("one\n{{ nothing }}").unwrap_err());
        assert!(problem.contains("nothing"), "{problem}");
    }
}
