//! A shell that runs a server for a test: prints the server's folder, then obeys commands until the process that started it
//! is gone, however that ended. Servers refuse to run as root, so root runs it as the user `nobody`.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
};

pub(crate) struct ServerShell {
    pub(crate) folder: String,
    /// The shell's input and output; the input closes with this process.
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    _child: Child,
}

impl ServerShell {
    /// Starts the script. Its first line of output is the server's folder; later it prints each command's word when that
    /// is done.
    pub(crate) fn start(script: &str, args: &[&str]) -> Self {
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout.starts_with(b"0\n");
        let mut command = if is_root {
            let mut command = Command::new("runuser");
            command.args(["-u", "nobody", "--", "sh"]);
            command
        } else {
            Command::new("sh")
        };
        command.args(["-c", script, "sh"]).args(args).current_dir("/");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut folder = String::new();
        answers.read_line(&mut folder).unwrap();
        assert!(!folder.is_empty(), "the server did not start");
        let pipes = Mutex::new((child.stdin.take().unwrap(), answers));
        Self { folder: folder.trim().to_owned(), pipes, _child: child }
    }

    /// Sends a command. Returns when it is done.
    pub(crate) fn run_command(&self, word: &str) {
        let (input, answers) = &mut *self.pipes.lock().unwrap();
        writeln!(input, "{word}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim(), word);
    }
}
