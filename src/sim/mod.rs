//! The embedded cluster: objects, API, controllers, hollow nodes, server.
