//! Kubernetes' own end-to-end tests that need no container, in the project's words: one module an area.
//!
//! Above each test stands, once for each test of the suite it stands for, `// upstream test: [sig-…] name [Conformance]`.

mod api_server;
mod auth;
mod collection;
mod conversion;
mod custom_resources;
mod devices;
mod endpoints;
mod exec;
mod executed_files;
mod extended_resources;
mod ground;
mod ingresses;
mod jobs;
mod kubelets;
mod lacking;
mod limits;
mod logs;
mod negotiation;
mod pod_security;
mod pods;
mod policies;
mod replication_controllers;
mod volumes;
mod webhooks;
