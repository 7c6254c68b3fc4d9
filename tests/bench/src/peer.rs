//! Peers that run in processes of their own, a slice at a time, so that their slices alternate with ours.
//!
//! The process writes `ready NAME`, or `absent REASON` and ends. Then, for each line that it reads, it runs its work once
//! to wake up and once timed, and writes `ns_per_kernel FIGURE`. It ends when its input does.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running peer.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    name: String,
}

impl Peer {
    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// Why it is not there.
    pub fn start(command: &mut Command) -> Result<Self, String> {
        let shown = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{shown}: {e}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("no output")?;
        let mut peer = Self {
            child,
            input,
            output: BufReader::new(output),
            name: String::new(),
        };
        let line = peer.line().map_err(|e| format!("{shown}: {e}"))?;
        match line.split_once(' ') {
            Some(("ready", name)) => peer.name = name.to_owned(),
            Some(("absent", reason)) => return Err(reason.to_owned()),
            _ => return Err(format!("{shown} said: {line}")),
        }
        Ok(peer)
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs one slice. Nanoseconds per kernel.
    ///
    /// # Errors
    /// What it said instead, or that it has ended.
    pub fn slice(&mut self) -> Result<f64, String> {
        let input = self.input.as_mut().ok_or("no input")?;
        input
            .write_all(b"\n")
            .and_then(|()| input.flush())
            .map_err(|e| format!("the peer has ended: {e}"))?;
        let line = self.line()?;
        line.strip_prefix("ns_per_kernel ")
            .and_then(|figure| figure.parse().ok())
            .ok_or(line)
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("ended early".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(e) => Err(e.to_string()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.input = None;
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Peer, String> {
        Peer::start(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn slices_are_run_on_request() {
        let script =
            "echo ready a peer; n=0; while read l; do n=$((n+1)); echo ns_per_kernel $n.5; done";
        let mut peer = shell(script).expect("a shell");
        assert_eq!(peer.name(), "a peer");
        assert_eq!((peer.slice(), peer.slice()), (Ok(1.5), Ok(2.5)));
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let why = |script| shell(script).expect_err("no peer");
        assert_eq!(why("echo absent no such library"), "no such library");
        assert_eq!(why("true"), "sh: ended early");
        assert_eq!(why("echo hello; read l"), "sh said: hello");
        assert!(
            Peer::start(&mut Command::new("./no-such-peer"))
                .is_err_and(|e| e.contains("no-such-peer"))
        );
        let mut peer = shell("echo ready x; read l; echo wrong result").expect("a shell");
        assert_eq!(peer.slice(), Err("wrong result".to_owned()));
        assert!(peer.slice().is_err());
    }
}
