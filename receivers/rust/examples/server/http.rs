//! A minimal HTTP/1.1 server: one request per connection, with the body length from content-length.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

pub const BODY_BYTES_MAX: usize = 1024 * 1024;
const HEAD_BYTES_MAX: u64 = 32 * 1024;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Reads the request, answers it and closes.
pub fn serve(stream: TcpStream, answer: impl Fn(&Request) -> (u16, String)) {
    // A sender that disconnected or is too slow gets no answer and retries.
    let _ = converse(&stream, answer);
}

fn converse(mut stream: &TcpStream, answer: impl Fn(&Request) -> (u16, String)) -> io::Result<()> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.set_write_timeout(Some(READ_TIMEOUT))?;
    let mut reader = BufReader::new(stream);
    let (status, text) = match read(&mut reader)? {
        Ok(request) => answer(&request),
        Err(refusal) => refusal,
    };
    write!(
        stream,
        "HTTP/1.1 {status} {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{text}",
        text.len()
    )?;
    // Unread bytes would turn the close into a reset and lose the answer, so some of them are read and dropped.
    stream.shutdown(std::net::Shutdown::Write)?;
    io::copy(&mut reader.take(4 * BODY_BYTES_MAX as u64), &mut io::sink())?;
    Ok(())
}

/// Returns the request, or the answer to an invalid one.
fn read(reader: &mut impl BufRead) -> io::Result<Result<Request, (u16, String)>> {
    let mut head = reader.take(HEAD_BYTES_MAX);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        head.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Ok(Err((431, "the headers are too long, or not whole".to_owned())));
        }
        match line.trim_end_matches(['\r', '\n']) {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines.first().map(String::as_str).unwrap_or_default().split(' ');
    let mut request = Request {
        method: words.next().unwrap_or_default().to_owned(),
        path: words.next().unwrap_or_default().to_owned(),
        ..Request::default()
    };
    for line in lines.iter().skip(1) {
        let Some((name, value)) = line.split_once(':') else {
            return Ok(Err((400, "a header without a colon".to_owned())));
        };
        request.headers.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    if request.method == "GET" {
        return Ok(Ok(request));
    }
    let lengths: Vec<_> =
        request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).collect();
    let [(_, length)] = lengths[..] else { return Ok(Err((411, "one content-length is needed".to_owned()))) };
    let Ok(length) = length.parse::<usize>() else {
        return Ok(Err((400, "content-length is no number".to_owned())));
    };
    if length > BODY_BYTES_MAX {
        return Ok(Err((413, format!("at most {BODY_BYTES_MAX} bytes"))));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    request.body = body;
    Ok(Ok(request))
}
