//! Runs a test a second time inside Linux namespaces of its own, where it may mount, and which have no network but
//! loopback.

use rustix::process::getuid;
use std::process::Command;

const INSIDE_VARIABLE: &str = "BLACK_BOX_INSIDE_NAMESPACE";

pub(crate) struct Namespace {
    /// The test's full name, as the test runner prints it.
    pub(crate) test: &'static str,
    /// Shell commands that prepare the namespace, as its root.
    pub(crate) prepare: &'static str,
}

impl Namespace {
    /// Returns true inside. Outside it starts the same test inside, fails if that fails, and returns false.
    ///
    /// Inside is a mount namespace of its own and a network with nothing but loopback.
    pub(crate) fn enter(&self) -> bool {
        #[expect(clippy::disallowed_methods, reason = "how the test knows that it is its own second run")]
        if std::env::var_os(INSIDE_VARIABLE).is_some() {
            return true;
        }
        let own_user = if getuid().is_root() { "-mn" } else { "-rmn" };
        let script = format!("set -e; ip link set lo up; {}\nexec \"$@\"", self.prepare);
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new("unshare");
        command.args([own_user, "--propagation", "private", "sh", "-c", &script, "sh"]);
        command.arg(this).args(["--exact", self.test, "--nocapture"]).env(INSIDE_VARIABLE, "1");
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("unshare: {error}; run ./check, which installs it"));
        for line in [output.stdout, output.stderr].iter().flat_map(|text| text.split(|byte| *byte == b'\n')) {
            println!("| {}", String::from_utf8_lossy(line));
        }
        assert!(
            output.status.success(),
            "the test failed inside its namespaces, or they could not be made: \
             that takes root or user namespaces, and the tools unshare, ip and mount (./check installs them)"
        );
        false
    }
}
