//! `stargate-bench relay`: the floor of every comparison, a proxy that reads nothing of what it passes on.
//!
//! One thread, one upstream connection for each client's, upstreams in turn. No pool, no parsing, no accounting. Buffers are
//! small, as most connections pass little on, and grow where reads fill them: long bodies take few system calls.

use std::{io::Write, net::SocketAddr, rc::Rc};

use anyhow::Context;
use monoio::{
    io::{AsyncReadRent, AsyncWriteRentExt},
    net::TcpStream,
};
use stargate_wire::net::{
    accept::Acceptor,
    cpu,
    runtime::{self, Driver},
    socket::{self, Reader, Writer},
};

/// What is read at once, in either direction: at first, and at most.
const BUFFER_BYTES: usize = 4096;
const BUFFER_BYTES_MAX: usize = 65_536;

/// Options of `relay`.
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where to pass connections on to, in turn; repeatable.
    #[arg(long = "upstream", value_name = "ADDR", required = true)]
    upstreams: Vec<SocketAddr>,
    /// Pin to this CPU.
    #[arg(long, value_name = "CPU")]
    core: Option<usize>,
}

/// Relays until it is killed.
pub fn run(args: Args, driver: Driver) -> anyhow::Result<()> {
    cpu::settle(args.core)?;
    runtime::block_on(driver, || serve(args))?
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let acceptor =
        Acceptor::bind(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "ready listen={}", acceptor.local_address()).and_then(|()| stdout.flush())?;
    }
    let upstreams: Rc<[SocketAddr]> = args.upstreams.into();
    for turn in 0_usize.. {
        let client = acceptor.next().await.context("accept")?;
        monoio::spawn(relay(client, upstreams[turn % upstreams.len()]));
    }
    Ok(())
}

async fn relay(client: TcpStream, upstream: SocketAddr) {
    // A client whose upstream is down sees its connection close.
    let Ok(upstream) = TcpStream::connect_addr(upstream).await else { return };
    let (client_reader, client_writer) = socket::split(client);
    let (upstream_reader, upstream_writer) = socket::split(upstream);
    monoio::spawn(copy(client_reader, upstream_writer));
    copy(upstream_reader, client_writer).await;
}

/// Copies one direction to its end; dropping the writer passes the end on.
async fn copy(mut reader: Reader, mut writer: Writer) {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let (result, filled) = reader.read(buffer).await;
        if !result.is_ok_and(|count| count > 0) {
            return;
        }
        let (result, written) = writer.write_all(filled).await;
        if result.is_err() {
            return;
        }
        let was_full = written.len() == written.capacity();
        buffer = written;
        buffer.clear();
        if was_full && buffer.capacity() < BUFFER_BYTES_MAX {
            buffer.reserve_exact(2 * buffer.capacity());
        }
    }
}
