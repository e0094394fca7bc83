//! What a process that others connect to exposes: its address to other machines, and plain HTTP to the plans that it receives. Both are off unless
//! the command line allows them.

use std::net::{IpAddr, SocketAddr};

use clap::Args;

#[derive(Args)]
pub(crate) struct Exposure {
    /// Allows addresses that other machines reach, although connections have neither authentication nor encryption: whoever connects runs queries with
    /// the rights and the credentials of this process.
    #[arg(long)]
    insecure: bool,
    /// Reads files by http:// URLs, too. The plans that arrive name them.
    #[arg(long)]
    pub(crate) allow_http: bool,
}

impl Exposure {
    /// Checks the address of a process before it listens there, and warns of one that other machines reach.
    ///
    /// # Errors
    /// If other machines reach the address, and `--insecure` is not given.
    pub(crate) fn check(&self, ip: IpAddr, ports: &[u16]) -> Result<(), String> {
        if let Some(warning) = self.warning(ip, ports)? {
            eprintln!("{warning}");
        }
        Ok(())
    }

    /// The warning of an address; `None` if this machine alone reaches it.
    fn warning(&self, ip: IpAddr, ports: &[u16]) -> Result<Option<String>, String> {
        if ip.to_canonical().is_loopback() {
            return Ok(None);
        }
        let addresses = ports.iter().map(|port| SocketAddr::new(ip, *port));
        let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
        let addresses = addresses.join(" and ");
        if !self.insecure {
            return Err(format!(
                "other machines reach {addresses}, and connections have neither authentication nor encryption: listen on 127.0.0.1, or give --insecure in a network whose every machine you trust"
            ));
        }
        Ok(Some(format!(
            "WARNING: this process listens on {addresses} without authentication and encryption, as --insecure allows.\nWARNING: whoever connects reads and writes files with the rights of this process, and uses its credentials."
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposure(insecure: bool) -> Exposure {
        Exposure {
            insecure,
            allow_http: false,
        }
    }

    #[test]
    fn this_machine_alone_needs_no_flag() {
        for ip in ["127.0.0.1", "127.3.0.9", "::1", "::ffff:127.0.0.1"] {
            let ip = ip.parse().unwrap();
            for insecure in [false, true] {
                assert_eq!(exposure(insecure).warning(ip, &[8080]), Ok(None), "{ip}");
            }
        }
    }

    #[test]
    fn other_machines_need_a_flag() {
        for (ip, shown) in [
            ("0.0.0.0", "0.0.0.0:50051 and 0.0.0.0:50052"),
            ("::", "[::]:50051 and [::]:50052"),
            ("192.168.1.7", "192.168.1.7:50051 and 192.168.1.7:50052"),
        ] {
            let (ip, ports) = (ip.parse().unwrap(), [50051, 50052]);
            let error = exposure(false).warning(ip, &ports).unwrap_err();
            assert!(
                error.contains(shown) && error.contains("--insecure"),
                "{error}"
            );
            let warning = exposure(true).warning(ip, &ports).unwrap().unwrap();
            assert!(warning.contains(shown), "{warning}");
            assert!(warning.lines().all(|line| line.starts_with("WARNING: ")));
        }
    }
}
