//! HTTP/1.1 as this gateway speaks it: strict heads in, exact framing out. No I/O: bytes go in, values come
//! out, so that every rule can be tested on a slice.
//!
//! Strictness is what keeps two parsers from disagreeing (request smuggling): whatever RFC 9112 lets a
//! recipient be lenient about is refused here.

mod chunked;
mod head;
mod relay_body;
mod request;
mod response;
mod version;

pub(crate) use chunked::{ChunkedDecoder, ChunkedError};
pub(crate) use head::push_header;
pub(crate) use relay_body::{Outgoing, RelayBody};
pub(crate) use request::{BodyFraming, Method, RequestHead, RequestRefused, Span};
pub(crate) use response::ResponseHead;
pub(crate) use version::Version;
