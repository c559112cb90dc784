//! What reports look like.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::code::Code;
use crate::spec::Source;
use crate::verify::{Cause, CheckResult, Finding, NodeGroup, NodeReason, Report, Suggestion, Verdict};

fn at(line: usize) -> crate::spec::Location {
    let source = Source::new("labs/x.toml", "\n".repeat(60));
    source.at(source.line_span(line))
}

fn report() -> Report {
    let runs = vec![Finding::for_test(Code::Running, true, "3 running", at(22))];
    let held = CheckResult::for_test("web: 3 running", "workload web", at(20), Verdict::Held, runs);
    let mut failed = CheckResult::for_test(
        "trainer: on pool:gpu, 3 running",
        "workload trainer",
        at(30),
        Verdict::Impossible { because: "1 pod is unschedulable".into() },
        vec![
            Finding::for_test(Code::On, false, "2 of 3 on pool:gpu, 1 Pending", at(32)),
            Finding::for_test(Code::NotOn, true, "none of 3 on pool:main: 2 on gpu, 1 Pending", at(33)),
        ],
    );
    let reason = |code: Code, text: &str, facts: serde_json::Value| NodeReason {
        code,
        name: code.name().to_owned(),
        text: text.into(),
        details: Vec::new(),
        facts: facts.as_object().cloned().unwrap_or_default(),
    };
    failed.causes = vec![Cause {
        code: Code::Unschedulable,
        subjects: vec!["default/trainer-7c9f6d8b5-x2k4q".into()],
        what: "Pending for 31 s, fits on none of 4 nodes".into(),
        nodes: vec![
            NodeGroup {
                nodes: vec!["gpu-0".into(), "gpu-1".into()],
                pool: Some("gpu".into()),
                reasons: vec![reason(
                    Code::Insufficient,
                    "6 cpu requested, 1.86 of 7.86 free",
                    json!({"requested_milli": 6000, "free_milli": 1860}),
                )],
            },
            NodeGroup {
                nodes: vec!["general-0".into(), "general-1".into()],
                pool: Some("general".into()),
                reasons: vec![reason(
                    Code::NodeSelector,
                    "no label accelerator, nodeSelector asks for accelerator=nvidia",
                    json!({"key": "accelerator", "value": "nvidia"}),
                )],
            },
        ],
    }];
    failed.suggestions = vec![
        Suggestion {
            code: "add-node",
            text: "set `pool.gpu.nodes = 3`".into(),
            at: Some(at(10)),
            command: None,
            changes: 1,
            nodes: vec!["gpu-new-0".into()],
        },
        Suggestion {
            code: "uncordon",
            text: "uncordon gpu-2".into(),
            at: None,
            command: Some("kubectl uncordon gpu-2".into()),
            changes: 1,
            nodes: vec!["gpu-2".into()],
        },
    ];
    failed.hint = Some("Look at `kubectl describe pod`.".into());
    let waiting = CheckResult::for_test(
        "db: 1 running",
        "workload db",
        at(40),
        Verdict::NotYet { waiting_for: "1 pod is starting".into() },
        vec![Finding::for_test(Code::Running, false, "0 running, wanted 1; 1 starting", at(41))],
    );
    Report {
        lab: "blast".into(),
        elapsed: Duration::from_millis(31_204),
        checks: vec![held, failed, waiting],
        ..Report::default()
    }
}

#[test]
fn text() {
    let report = report();
    assert_snapshot!(human(&report, Styles::plain()), @"
    ✓ held     web: 3 running
    ✗ failed   trainer: on pool:gpu, 3 running → 2 of 3 on pool:gpu, 1 Pending
        hint: Look at `kubectl describe pod`.
        trainer-7c9f6d8b5-x2k4q  Pending for 31 s, fits on none of 4 nodes:
          gpu-0, gpu-1          6 cpu requested, 1.86 of 7.86 free
          general-0, general-1  no label accelerator, nodeSelector asks for accelerator=nvidia
        fix: set `pool.gpu.nodes = 3` (labs/x.toml:10)
         or: uncordon gpu-2:
             kubectl uncordon gpu-2
        at labs/x.toml:30 (K0508)
    ✗ not yet  db: 1 running → 0 running, wanted 1; 1 starting
        waiting: 1 pod is starting
        at labs/x.toml:40 (K0602)
    ");
    assert_snapshot!(summary(&report), @"1 of 3 checks hold");
    let coloured = human(&report, Styles::coloured());
    assert_ne!(coloured, human(&report, Styles::plain()));
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), human(&report, Styles::plain()));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one report with everything that can be in it")]
fn machine_readable() {
    let report = report();
    assert_snapshot!(serde_json::to_string_pretty(&json(&report)).unwrap(), @r#"
    {
      "checks": [
        {
          "at": {
            "column": 1,
            "file": "labs/x.toml",
            "line": 20
          },
          "case": "running",
          "causes": [],
          "code": "K0602",
          "conditions": [
            {
              "at": {
                "column": 1,
                "file": "labs/x.toml",
                "line": 22
              },
              "case": "running",
              "code": "K0602",
              "holds": true,
              "now": "3 running",
              "offenders": []
            }
          ],
          "name": "web: 3 running",
          "now": "3 running",
          "subject": "workload web",
          "suggestions": [],
          "verdict": "held"
        },
        {
          "at": {
            "column": 1,
            "file": "labs/x.toml",
            "line": 30
          },
          "because": "1 pod is unschedulable",
          "case": "on",
          "causes": [
            {
              "case": "unschedulable",
              "code": "K0540",
              "nodes": [
                {
                  "nodes": [
                    "gpu-0",
                    "gpu-1"
                  ],
                  "pool": "gpu",
                  "reasons": [
                    {
                      "code": "K0508",
                      "free_milli": 1860,
                      "reason": "insufficient",
                      "requested_milli": 6000,
                      "text": "6 cpu requested, 1.86 of 7.86 free"
                    }
                  ]
                },
                {
                  "nodes": [
                    "general-0",
                    "general-1"
                  ],
                  "pool": "general",
                  "reasons": [
                    {
                      "code": "K0504",
                      "key": "accelerator",
                      "reason": "node-selector",
                      "text": "no label accelerator, nodeSelector asks for accelerator=nvidia",
                      "value": "nvidia"
                    }
                  ]
                }
              ],
              "subjects": [
                "default/trainer-7c9f6d8b5-x2k4q"
              ],
              "what": "Pending for 31 s, fits on none of 4 nodes"
            }
          ],
          "code": "K0601",
          "conditions": [
            {
              "at": {
                "column": 1,
                "file": "labs/x.toml",
                "line": 32
              },
              "case": "on",
              "code": "K0601",
              "holds": false,
              "now": "2 of 3 on pool:gpu, 1 Pending",
              "offenders": []
            },
            {
              "at": {
                "column": 1,
                "file": "labs/x.toml",
                "line": 33
              },
              "case": "not-on",
              "code": "K0601",
              "holds": true,
              "now": "none of 3 on pool:main: 2 on gpu, 1 Pending",
              "offenders": []
            }
          ],
          "hint": "Look at `kubectl describe pod`.",
          "name": "trainer: on pool:gpu, 3 running",
          "now": "2 of 3 on pool:gpu, 1 Pending",
          "subject": "workload trainer",
          "suggestions": [
            {
              "at": {
                "column": 1,
                "file": "labs/x.toml",
                "line": 10
              },
              "changes": 1,
              "code": "add-node",
              "command": null,
              "nodes": [
                "gpu-new-0"
              ],
              "text": "set `pool.gpu.nodes = 3`"
            },
            {
              "at": null,
              "changes": 1,
              "code": "uncordon",
              "command": "kubectl uncordon gpu-2",
              "nodes": [
                "gpu-2"
              ],
              "text": "uncordon gpu-2"
            }
          ],
          "verdict": "impossible"
        },
        {
          "at": {
            "column": 1,
            "file": "labs/x.toml",
            "line": 40
          },
          "case": "running",
          "causes": [],
          "code": "K0602",
          "conditions": [
            {
              "at": {
                "column": 1,
                "file": "labs/x.toml",
                "line": 41
              },
              "case": "running",
              "code": "K0602",
              "holds": false,
              "now": "0 running, wanted 1; 1 starting",
              "offenders": []
            }
          ],
          "name": "db: 1 running",
          "now": "0 running, wanted 1; 1 starting",
          "subject": "workload db",
          "suggestions": [],
          "verdict": "not-yet",
          "waiting_for": "1 pod is starting"
        }
      ],
      "differences": [],
      "elapsed_ms": 31204,
      "held": 1,
      "lab": "blast",
      "ok": false,
      "open": [],
      "schema": "klab.report/1",
      "total": 3,
      "unasked": []
    }
    "#);
    assert_snapshot!(junit(&[Suite { name: "blast", report: &report }]).unwrap(), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="klab" tests="3" skipped="0" failures="2" errors="0" time="31.204">
        <testsuite name="blast" tests="3" skipped="0" errors="0" failures="2" time="31.204">
            <testcase name="web: 3 running" classname="blast" time="31.204"/>
            <testcase name="trainer: on pool:gpu, 3 running" classname="blast" time="31.204">
                <failure message="trainer: on pool:gpu, 3 running → 2 of 3 on pool:gpu, 1 Pending" type="K0601">  ✗ failed   trainer: on pool:gpu, 3 running → 2 of 3 on pool:gpu, 1 Pending
          hint: Look at `kubectl describe pod`.
          trainer-7c9f6d8b5-x2k4q  Pending for 31 s, fits on none of 4 nodes:
            gpu-0, gpu-1          6 cpu requested, 1.86 of 7.86 free
            general-0, general-1  no label accelerator, nodeSelector asks for accelerator=nvidia
          fix: set `pool.gpu.nodes = 3` (labs/x.toml:10)
           or: uncordon gpu-2:
               kubectl uncordon gpu-2
          at labs/x.toml:30 (K0508)
    </failure>
            </testcase>
            <testcase name="db: 1 running" classname="blast" time="31.204">
                <failure message="db: 1 running → 0 running, wanted 1; 1 starting" type="K0602">  ✗ not yet  db: 1 running → 0 running, wanted 1; 1 starting
          waiting: 1 pod is starting
          at labs/x.toml:40 (K0602)
    </failure>
            </testcase>
        </testsuite>
    </testsuites>
    "#);
}
