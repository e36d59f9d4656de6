//! The command line, and how it becomes a configuration.
//!
//! Each flag stands for a key of the file and has a variable of its own. Precedence: flag, `--set`, variable,
//! file, default; the short variable (`STARGATE_LISTEN`) wins over the long one (`STARGATE__SERVER__LISTEN`).

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use stargate_controlplane::config::{Config, ConfigError, Layers, Origin, Override, Routing};

use crate::explain;

/// LLM inference gateway: routes each request to the engine cluster that answers soonest.
#[derive(Debug, Parser)]
#[command(name = "stargate", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// What to do.
#[derive(Clone, Debug, Default, Subcommand)]
pub(crate) enum Command {
    /// Serve (the default).
    #[default]
    Serve,
    /// Check the configuration, print a summary or the error, and exit with 0 or 2.
    CheckConfig,
    /// Ask the running gateway what would become of a request, and why.
    Explain(Box<explain::Options>),
}

/// Flags of every command.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Flags {
    /// Configuration file [env: `STARGATE_CONFIG`].
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address that clients connect to; may be repeated [env: `STARGATE_LISTEN`, comma-separated].
    #[arg(long, global = true, value_name = "ADDR")]
    listen: Vec<String>,
    /// Address of the REST API and the metrics [env: `STARGATE_ADMIN_LISTEN`].
    #[arg(long, global = true, value_name = "ADDR")]
    admin_listen: Option<String>,
    /// CPUs for the data plane: a number, a list such as 0,2-3, or all [env: `STARGATE_CORES`].
    #[arg(long, global = true, value_name = "LIST|N|all")]
    cores: Option<String>,
    /// Kernel interface for I/O: io-uring or epoll [env: `STARGATE_DRIVER`].
    #[arg(long, global = true, value_name = "DRIVER")]
    driver: Option<String>,
    /// off, error, warn, info, debug or trace [env: `STARGATE_LOG_LEVEL`].
    #[arg(long, global = true, value_name = "LEVEL")]
    log_level: Option<String>,
    /// text or json [env: `STARGATE_LOG_FORMAT`].
    #[arg(long, global = true, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Routing document, JSON or (with a name in `.toml`) TOML, in place of the configuration's `[routing]`
    /// [env: `STARGATE_ROUTING`].
    #[arg(long, global = true, value_name = "FILE")]
    routing: Option<PathBuf>,
    /// Override any key of the file, such as `timeouts.connect_ms=500`; may be repeated
    /// [env: `STARGATE__TIMEOUTS__CONNECT_MS`].
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// A flag that stands for one key: its name, its variable, the key.
struct Named {
    flag: &'static str,
    variable: &'static str,
    section: &'static str,
    key: &'static str,
}

const LISTEN: Named =
    Named { flag: "--listen", variable: "STARGATE_LISTEN", section: "server", key: "listen" };
const ADMIN_LISTEN: Named =
    Named { flag: "--admin-listen", variable: "STARGATE_ADMIN_LISTEN", section: "admin", key: "listen" };
const CORES: Named = Named { flag: "--cores", variable: "STARGATE_CORES", section: "server", key: "cores" };
const DRIVER: Named =
    Named { flag: "--driver", variable: "STARGATE_DRIVER", section: "server", key: "driver" };
const LOG_LEVEL: Named =
    Named { flag: "--log-level", variable: "STARGATE_LOG_LEVEL", section: "log", key: "level" };
const LOG_FORMAT: Named =
    Named { flag: "--log-format", variable: "STARGATE_LOG_FORMAT", section: "log", key: "format" };

const CONFIG_VARIABLE: &str = "STARGATE_CONFIG";
const ROUTING_VARIABLE: &str = "STARGATE_ROUTING";

// === impl Flags ===

impl Flags {
    /// The configuration that flags, `environment` and file give together.
    pub(crate) fn load(&self, environment: &[(String, String)]) -> Result<Config, ConfigError> {
        let mut layers = Layers::default();
        let variable =
            |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let file = self.config.clone().or_else(|| variable(CONFIG_VARIABLE).map(PathBuf::from));
        if let Some(path) = file {
            layers.read_file(&path)?;
        }
        for (name, value) in environment {
            if let Some(layer) = Override::variable(name, value) {
                layers.push(layer);
            }
        }
        for named in [&LISTEN, &ADMIN_LISTEN, &CORES, &DRIVER, &LOG_LEVEL, &LOG_FORMAT] {
            if let Some(value) = variable(named.variable) {
                let values: Vec<String> = value.split(',').map(|value| value.trim().to_owned()).collect();
                let values = if named.flag == LISTEN.flag { values } else { vec![value.to_owned()] };
                layers.push(named.layer(Origin::Variable(named.variable.into()), &values));
            }
        }
        for argument in &self.set {
            layers.push(Override::set(argument)?);
        }
        for (named, value) in [
            (&ADMIN_LISTEN, &self.admin_listen),
            (&CORES, &self.cores),
            (&DRIVER, &self.driver),
            (&LOG_LEVEL, &self.log_level),
            (&LOG_FORMAT, &self.log_format),
        ] {
            if let Some(value) = value {
                layers.push(named.layer(Origin::Flag(named.flag.into()), std::slice::from_ref(value)));
            }
        }
        if !self.listen.is_empty() {
            layers.push(LISTEN.layer(Origin::Flag(LISTEN.flag.into()), &self.listen));
        }
        let mut config = layers.load()?;
        let routing = self.routing.clone().or_else(|| variable(ROUTING_VARIABLE).map(PathBuf::from));
        if let Some(path) = routing {
            config.routing = Routing::from_file(&path)?;
        }
        Ok(config)
    }
}

// === impl Named ===

impl Named {
    fn layer(&self, origin: Origin, values: &[String]) -> Override {
        match values {
            [value] if self.flag != LISTEN.flag => {
                Override::named(origin, self.section, self.key, value.clone())
            }
            values => Override::named(origin, self.section, self.key, values.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use stargate_controlplane::config::{Cores, LogLevel};

    use super::*;

    fn load(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let environment: Vec<(String, String)> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let arguments = std::iter::once("stargate").chain(arguments.iter().copied());
        Cli::try_parse_from(arguments).unwrap().flags.load(&environment)
    }

    #[test]
    fn flags_stand_before_and_after_the_command() {
        for arguments in [
            &["--cores", "1", "check-config"][..],
            &["check-config", "--cores", "1"],
            &["--cores", "1"],
            &["serve", "--cores=1"],
        ] {
            assert_eq!(load(arguments, &[]).unwrap().server.cores, Cores::Count(1), "{arguments:?}");
        }
    }

    #[test]
    fn precedence_is_flag_set_short_variable_long_variable() {
        let long = ("STARGATE__LOG__LEVEL", "error");
        let short = ("STARGATE_LOG_LEVEL", "warn");
        let level = |arguments: &[&str], environment: &[(&str, &str)]| {
            load(arguments, environment).unwrap().log.level
        };
        assert_eq!(level(&[], &[long]), LogLevel::Error);
        assert_eq!(level(&[], &[short, long]), LogLevel::Warn);
        assert_eq!(level(&["--set", "log.level=debug"], &[short, long]), LogLevel::Debug);
        assert_eq!(level(&["--set", "log.level=debug", "--log-level", "trace"], &[short]), LogLevel::Trace);
    }

    #[test]
    fn several_listeners_come_from_flags_and_from_one_variable() {
        let config = load(&["--listen", "127.0.0.1:0", "--listen", "[::1]:0"], &[]).unwrap();
        assert_eq!(config.server.listen.0.len(), 2);
        let config = load(&[], &[("STARGATE_LISTEN", "127.0.0.1:1, [::1]:2")]).unwrap();
        assert_eq!(config.server.listen.0.len(), 2);
    }

    #[test]
    fn errors_name_the_flag_or_the_variable() {
        for (arguments, environment, start) in [
            (&["--cores", "many"][..], &[][..], "flag --cores: server.cores: "),
            (&["--listen", "x"], &[], "flag --listen: server.listen[0]: "),
            (&[], &[("STARGATE_DRIVER", "kqueue")], "environment variable STARGATE_DRIVER: server.driver"),
            (&["--admin-listen", "0.0.0.0:1"], &[], "flag --admin-listen: admin.listen: found 0.0.0.0:1"),
            (&["--config", "/does/not/exist.toml"], &[], "/does/not/exist.toml: cannot be read: "),
        ] {
            let error = load(arguments, environment).unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn other_variables_are_none_of_our_business() {
        // What Kubernetes sets beside a service named stargate.
        let config = load(&[], &[("STARGATE_PORT", "tcp://10.0.0.1:8080"), ("STARGATE_SERVICE_HOST", "x")]);
        assert_eq!(config.unwrap(), Config::default());
    }
}
