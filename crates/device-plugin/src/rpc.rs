//! gRPC as far as the kubelet needs it: calls with one message each way, and one call with many answers, over
//! HTTP/2 on a unix socket, without encryption or compression. (grpc.io, "gRPC over HTTP2".) Owns: what is
//! not a message is refused, and costs at most [`MOST`] bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream, client, server};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use std::fmt;
use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::debug;

/// Bytes of a message: a pod's containers name each of their devices.
pub const MOST: usize = 1 << 20;
/// Whoever connects beyond that waits. (A kubelet has one connection.)
const CONNECTIONS: usize = 16;
/// Calls under way on each.
const CALLS: u32 = 32;
/// Not compressed, and how long it is.
const PREFIX: usize = 5;

/// Why a call failed: a code of gRPC, and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// As gRPC numbers them.
    pub code: u32,
    /// For people.
    pub message: String,
}

impl Status {
    /// No such device.
    pub const INVALID: u32 = 3;
    /// No such call.
    pub const UNIMPLEMENTED: u32 = 12;
    /// The answer cannot be had.
    pub const INTERNAL: u32 = 13;
    /// Nobody answers. Of all codes the one after which it is tried again.
    pub const UNAVAILABLE: u32 = 14;

    /// A status.
    pub fn new(code: u32, message: impl fmt::Display) -> Status {
        Status { code, message: message.to_string() }
    }

    fn lost(error: impl fmt::Display) -> Status {
        Status::new(Self::UNAVAILABLE, error)
    }

    /// What an answer's headers or trailers say, if they say it.
    fn told(headers: &HeaderMap) -> Option<Result<(), Status>> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let code = text("grpc-status")?.parse().unwrap_or(Self::INTERNAL);
        let message = text("grpc-message").unwrap_or_default();
        Some(if code == 0 { Ok(()) } else { Err(Status::new(code, message)) })
    }

    fn headers(&self, mut headers: HeaderMap) -> HeaderMap {
        headers.insert("grpc-status", self.code.into());
        if let Ok(message) = HeaderValue::from_str(&self.message) {
            headers.insert("grpc-message", message);
        }
        headers
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (gRPC code {})", self.message, self.code)
    }
}

impl std::error::Error for Status {}

/// What a call is answered with.
#[derive(Debug)]
pub enum Answer {
    /// A message.
    One(Vec<u8>),
    /// The message that there is now, and each that replaces it, as long as both ends are there.
    News(watch::Receiver<Vec<u8>>),
}

/// Who answers calls.
pub trait Service: Send + Sync + 'static {
    /// The answer to a call of this name. Errors: what the caller is told.
    fn call(&self, name: &str, message: &[u8]) -> Result<Answer, Status>;
}

/// Answers calls until it is dropped.
pub async fn serve(listener: UnixListener, service: Arc<impl Service>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(attend(stream, Arc::clone(&service)))),
            // (Out of descriptors, say.)
            Err(error) => {
                debug!(%error, "cannot accept");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// One connection. Its calls end with it.
async fn attend(stream: UnixStream, service: Arc<impl Service>) {
    let mut calls = JoinSet::new();
    let mut builder = server::Builder::new();
    builder.max_concurrent_streams(CALLS);
    let mut connection = match builder.handshake::<_, Bytes>(stream).await {
        Ok(connection) => connection,
        Err(error) => return debug!(%error, "speaks no HTTP/2"),
    };
    while let Some(request) = connection.accept().await {
        match request {
            Ok((request, respond)) => drop(calls.spawn(answer(request, respond, Arc::clone(&service)))),
            Err(error) => return debug!(%error, "a connection ends"),
        }
        while calls.try_join_next().is_some() {}
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: server::SendResponse<Bytes>,
    service: Arc<impl Service>,
) {
    let name = request.uri().path().to_string();
    let answered = match Messages::new(request.into_body()).only().await {
        Ok(message) => service.call(&name, &message),
        Err(status) => Err(status),
    };
    let sent = match answered {
        Ok(answer) => send(answer, respond).await,
        Err(status) => {
            debug!(name, %status, "refuses a call");
            // (Headers alone, and those are the trailers.)
            respond.send_response(response(|headers| status.headers(headers)), true).map(|_| ())
        }
    };
    if let Err(error) = sent {
        debug!(name, %error, "a call has ended early");
    }
}

fn response(headers: impl FnOnce(HeaderMap) -> HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    let mut own = HeaderMap::new();
    own.insert("content-type", HeaderValue::from_static("application/grpc"));
    *response.headers_mut() = headers(own);
    response
}

async fn send(answer: Answer, mut respond: server::SendResponse<Bytes>) -> Result<(), h2::Error> {
    let mut stream = respond.send_response(response(|headers| headers), false)?;
    match answer {
        Answer::One(message) => stream.send_data(framed(&message), false)?,
        Answer::News(mut news) => loop {
            let message = framed(&news.borrow_and_update());
            stream.send_data(message, false)?;
            tokio::select! {
                changed = news.changed() => if changed.is_err() { break },
                // The caller wants no more.
                reset = poll_fn(|context| stream.poll_reset(context)) => return reset.map(|_| ()),
            }
        },
    }
    stream.send_trailers(Status::new(0, "").headers(HeaderMap::new()))
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX + message.len());
    frame.put_u8(0);
    frame.put_u32(message.len() as u32);
    frame.put_slice(message);
    frame.freeze()
}

/// The messages of one direction of a call.
#[derive(Debug)]
pub struct Messages {
    body: RecvStream,
    bytes: BytesMut,
}

impl Messages {
    fn new(body: RecvStream) -> Messages {
        Messages { body, bytes: BytesMut::new() }
    }

    /// The next one; none after the last. Errors: what the peer says, or that it says no sense.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            let Some(data) = self.body.data().await else { break };
            let data = data.map_err(Status::lost)?;
            self.bytes.extend_from_slice(&data);
            self.body.flow_control().release_capacity(data.len()).map_err(Status::lost)?;
        }
        let trailers = self.body.trailers().await.map_err(Status::lost)?.unwrap_or_default();
        Status::told(&trailers).unwrap_or(Ok(()))?;
        match self.bytes.is_empty() {
            true => Ok(None),
            false => Err(Status::new(Status::INTERNAL, "a message is cut off")),
        }
    }

    /// The one that there is.
    async fn only(mut self) -> Result<Bytes, Status> {
        let wrong = || Status::new(Status::INTERNAL, "not one message");
        let message = self.next().await?.ok_or_else(wrong)?;
        if self.next().await?.is_some() { Err(wrong()) } else { Ok(message) }
    }

    /// A message that is there as a whole.
    fn take(&mut self) -> Result<Option<Bytes>, Status> {
        if self.bytes.len() < PREFIX {
            return Ok(None);
        }
        let mut prefix = &self.bytes[..PREFIX];
        let (compressed, length) = (prefix.get_u8(), prefix.get_u32() as usize);
        if compressed != 0 {
            return Err(Status::new(Status::UNIMPLEMENTED, "nothing compressed is read"));
        }
        if length > MOST {
            return Err(Status::new(Status::INVALID, "the message is too long"));
        }
        if self.bytes.len() < PREFIX + length {
            return Ok(None);
        }
        self.bytes.advance(PREFIX);
        Ok(Some(self.bytes.split_to(length).freeze()))
    }
}

/// A connection on which calls are made. It ends with the value.
#[derive(Debug)]
pub struct Caller {
    requests: client::SendRequest<Bytes>,
    connection: JoinHandle<()>,
}

impl Caller {
    /// Connects. Errors: nobody is there.
    pub async fn connect(path: &Path) -> Result<Caller, Status> {
        let stream = UnixStream::connect(path).await.map_err(Status::lost)?;
        let (requests, connection) = client::handshake(stream).await.map_err(Status::lost)?;
        let connection = tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "a connection ends");
            }
        });
        Ok(Caller { requests, connection })
    }

    /// Makes a call; its answers. Errors: as the callee says, or that it is lost.
    pub async fn call(&self, name: &str, message: &[u8]) -> Result<Messages, Status> {
        let mut requests = self.requests.clone().ready().await.map_err(Status::lost)?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://localhost{name}"))
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(())
            .map_err(|error| Status::new(Status::INTERNAL, error))?;
        let (answer, mut stream) = requests.send_request(request, false).map_err(Status::lost)?;
        let sent: Result<(), h2::Error> = SendStream::send_data(&mut stream, framed(message), true);
        sent.map_err(Status::lost)?;
        let answer = answer.await.map_err(Status::lost)?;
        if answer.status() != http::StatusCode::OK {
            return Err(Status::new(Status::INTERNAL, format_args!("HTTP says {}", answer.status())));
        }
        Status::told(answer.headers()).unwrap_or(Ok(()))?;
        Ok(Messages::new(answer.into_body()))
    }

    /// Makes a call that has one answer.
    pub async fn ask(&self, name: &str, message: &[u8]) -> Result<Bytes, Status> {
        self.call(name, message).await?.only().await
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.connection.abort();
    }
}
