//! Writing a message whole, for as long as its reader takes some of it and the client is there.
//!
//! The reader may be the client itself or an engine: either way nothing is written for a client that has left.

use std::{io, time::Duration};

use super::{
    race::{Raced, race},
    watch::ClientWatch,
};
use crate::io::socket::WriteOwned;

/// Why a message was not written whole.
#[derive(Debug)]
pub(crate) enum WriteEnd {
    /// The connection written to broke.
    Broken(io::Error),
    /// The client has left, whoever was written to.
    ClientLeft,
    /// Nothing was taken for too long.
    Stalled,
}

/// Writes all of `message` and returns its buffer; `limit` is how long nothing may be taken.
pub(crate) async fn write_all(
    socket: &impl WriteOwned,
    mut message: Vec<u8>,
    client: &mut ClientWatch,
    limit: Duration,
) -> Result<Vec<u8>, WriteEnd> {
    let mut written = 0;
    while written < message.len() {
        match race(socket.write(message, written), client, limit).await {
            Raced::Done((Ok(length), buffer)) => {
                written += length;
                message = buffer;
            }
            Raced::Done((Err(error), _)) => return Err(WriteEnd::Broken(error)),
            Raced::ClientLeft => return Err(WriteEnd::ClientLeft),
            Raced::TimedOut => return Err(WriteEnd::Stalled),
        }
    }
    Ok(message)
}
