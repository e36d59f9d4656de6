//! nginx: one process, round robin, a pool of kept connections, nothing buffered on the way.

use std::{fmt::Write, net::SocketAddr};

use super::{Contestant, Kind, Stage};
use crate::peers::{kind::Peer, stage::free_address};

/// Starts it.
pub(super) fn start(stage: &Stage<'_>, upstreams: &[SocketAddr]) -> anyhow::Result<Contestant> {
    let listen = free_address()?;
    let file = stage.write("nginx.conf", &configuration(listen, upstreams))?;
    let folder = stage.folder.path().display();
    let arguments =
        ["-p".to_owned(), format!("{folder}/"), "-e".to_owned(), "stderr".to_owned(), "-c".to_owned(), file];
    let process = stage.start_peer(Kind::Nginx, Peer::Nginx, &arguments)?;
    Ok(Contestant { kind: Kind::Nginx, addresses: vec![listen], process: Some(process) })
}

/// Files are named relative to the folder that it is started with. Without a master nothing of it outlives this process.
fn configuration(listen: SocketAddr, upstreams: &[SocketAddr]) -> String {
    let mut servers = String::new();
    for upstream in upstreams {
        // Writing to a string cannot fail.
        let _ = writeln!(servers, "    server {upstream};");
    }
    let files = "client_body_temp_path nginx-body;\n  proxy_temp_path nginx-proxy;\n  \
                 fastcgi_temp_path nginx-fastcgi;\n  uwsgi_temp_path nginx-uwsgi;\n  scgi_temp_path nginx-scgi;\n";
    format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid nginx.pid;\nerror_log stderr error;\n\
         events {{\n  worker_connections 19990;\n  multi_accept on;\n}}\n\
         http {{\n  access_log off;\n  tcp_nodelay on;\n  keepalive_timeout 3600s;\n  keepalive_requests 100000000;\n  \
         client_max_body_size 0;\n  client_body_buffer_size 64k;\n  {files}  \
         upstream engines {{\n{servers}    keepalive 4096;\n    keepalive_requests 100000000;\n    \
         keepalive_timeout 3600s;\n  }}\n  \
         server {{\n    listen {listen} backlog=4096;\n    location / {{\n      proxy_pass http://engines;\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      \
         proxy_set_header X-Forwarded-For $remote_addr;\n      proxy_buffering off;\n      \
         proxy_request_buffering off;\n      proxy_read_timeout 600s;\n      proxy_send_timeout 600s;\n    }}\n  }}\n}}\n"
    )
}
