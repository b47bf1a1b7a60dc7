//! Scrapes of the metrics, over HTTP on a unix socket: one request, one answer, closed. Owns: a scraper
//! that is slow, silent or talks nonsense costs one descriptor for a second.

use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// At one time.
const MOST: usize = 16;
/// A request is a line and some headers.
const REQUEST: usize = 4096;

/// Those that are connected.
#[derive(Default)]
pub(crate) struct Scrapes(HashMap<u64, Scrape>);

struct Scrape {
    socket: OwnedFd,
    since: Instant,
    request: Vec<u8>,
}

impl Scrapes {
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    pub(crate) fn add(&mut self, id: u64, socket: OwnedFd) {
        self.0.insert(id, Scrape { socket, since: Instant::now(), request: vec![] });
    }

    pub(crate) fn has(&self, id: u64) -> bool {
        self.0.contains_key(&id)
    }

    /// Since when each has been connected.
    pub(crate) fn since(&self) -> impl Iterator<Item = Instant> {
        self.0.values().map(|scrape| scrape.since)
    }

    pub(crate) fn drop_older_than(&mut self, limit: Duration) {
        self.0.retain(|_, scrape| scrape.since.elapsed() < limit);
    }

    /// Reads on; with the whole request the answer goes out, and the scraper is done.
    pub(crate) fn serve(&mut self, id: u64, text: impl FnOnce() -> String) {
        let Some(scrape) = self.0.get_mut(&id) else { return };
        if let Some(answer) = scrape.read(text) {
            let _ = send(&scrape.socket, answer.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            self.0.remove(&id);
        }
    }
}

impl Scrape {
    /// The answer, once the request is whole, or no request; empty if there is nobody to answer.
    fn read(&mut self, text: impl FnOnce() -> String) -> Option<String> {
        let mut bytes = [0; 1024];
        match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Some(String::new()),
            Ok((len, _)) => self.request.extend_from_slice(&bytes[..len]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return None,
            Err(_) => return Some(String::new()),
        }
        answer(&self.request, text)
    }
}

fn answer(request: &[u8], text: impl FnOnce() -> String) -> Option<String> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Request::new(&mut headers);
    let whole = |status: &str, body: &str| {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let len = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
        )
    };
    match head.parse(request) {
        Ok(httparse::Status::Partial) if request.len() < REQUEST => None,
        Ok(httparse::Status::Complete(_)) => Some(match (head.method, head.path) {
            (Some("GET"), Some("/metrics")) => whole("200 OK", &text()),
            (Some("GET"), _) => whole("404 Not Found", ""),
            _ => whole("405 Method Not Allowed", ""),
        }),
        _ => Some(whole("400 Bad Request", "")),
    }
}

#[cfg(test)]
mod tests {
    use super::answer;

    #[test]
    fn a_request_is_answered_when_it_is_whole() {
        let begin = |request: &str| {
            answer(request.as_bytes(), || "# EOF\n".into())
                .map(|answer| answer.split_whitespace().nth(1).unwrap_or_default().to_string())
        };
        assert_eq!(begin("GET /metrics HTTP/1.1\r\nHost: x\r\n"), None);
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\u{1}\u{2}\r\n\r\n", "400"),
        ] {
            assert_eq!(begin(request).as_deref(), Some(status), "{request:?}");
        }
        let long = format!("GET /{} ", "x".repeat(5000));
        assert_eq!(begin(&long).as_deref(), Some("400"));
    }
}
