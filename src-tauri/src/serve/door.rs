//! Who may connect: programs on this machine, and no web page.
//!
//! A web page can send requests to this machine, and through a domain name that it points here (DNS rebinding) it could read the
//! answers. So every request has to name this server as its host, and none may come from a page. No header that lets a page read
//! an answer is ever sent.

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use sha2::{Digest, Sha256};

use super::refusal::Refusal;

/// What is asked for at the door.
#[derive(Debug)]
pub(super) struct Door {
    /// Where the server listens.
    pub(super) port: u16,
    /// The sum of the key that has to be shown, if there is one.
    key: Option<[u8; 32]>,
}

impl Door {
    pub(super) fn new(port: u16, key: Option<&str>) -> Self {
        let key = key.map(|key| Sha256::digest(key).into());
        Self { port, key }
    }

    /// Whether a key is asked for.
    pub(super) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Lets a request in, or says why not.
    pub(super) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        self.check_host(uri, headers)?;
        if headers.contains_key(header::ORIGIN) {
            let why = "requests of web pages are refused; ask from a program on this machine";
            return Err(Refusal::new(StatusCode::FORBIDDEN, why));
        }
        if uri.path().trim_end_matches('/') != "/health" {
            self.check_key(headers)?;
        }
        match method == Method::POST && !is_json(headers) {
            true => Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body has to be JSON: send it with `Content-Type: application/json`",
            )),
            false => Ok(()),
        }
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            let why = "a request names its host once, in the header `Host`";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, why));
        };
        // A request to a proxy has the host in its address too.
        let named = uri.authority().map(|it| it.as_str().as_bytes());
        let is_ours = |host: &[u8]| std::str::from_utf8(host).is_ok_and(|it| self.is_our_name(it));
        match is_ours(host.as_bytes()) && named.is_none_or(is_ours) {
            true => Ok(()),
            false => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!(
                    "this server answers to 127.0.0.1:{0} and localhost:{0} only, and the request names another host",
                    self.port
                ),
            )),
        }
    }

    /// Whether a host is this machine by a name that nobody can point elsewhere, at our port.
    fn is_our_name(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.is_empty() && !port.ends_with(']') => (name, port),
            _ => (host, "80"),
        };
        let is_our_port =
            port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse() == Ok(self.port);
        let is_here =
            name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "[::1]";
        is_our_port && is_here
    }

    fn check_key(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(key) = &self.key else {
            return Ok(());
        };
        let shown = headers.get(header::AUTHORIZATION);
        let shown = shown.and_then(|it| {
            let (scheme, key) = it.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key)
        });
        // Sums are compared, all of them, so that the time tells neither the length nor a beginning of the key.
        let shown: [u8; 32] = Sha256::digest(shown.unwrap_or_default()).into();
        let differing = key.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
        match std::hint::black_box(differing) {
            0 => Ok(()),
            _ => Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "the server was started with a key, and the request has another one or none: send it as `Authorization: Bearer KEY`",
            )
            .with_code("invalid_api_key")),
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};
    use models::random::Random;

    use super::*;

    const OURS: (&str, &str) = ("host", "127.0.0.1:1414");

    fn status(door: &Door, method: Method, uri: &str, headers: &[(&str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let checked = door.check(&method, &uri.parse().unwrap(), &map);
        checked.map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[track_caller]
    fn check(headers: &[(&str, &str)], expected: u16) {
        let door = Door::new(1414, None);
        let got = status(&door, Method::GET, "/v1/models", headers);
        assert_eq!(got, expected, "{headers:?}");
    }

    #[test]
    fn only_names_of_this_machine_with_our_port_are_hosts() {
        for host in [
            "127.0.0.1:1414",
            "localhost:1414",
            "LocalHost:1414",
            "[::1]:1414",
        ] {
            check(&[("host", host)], 200);
        }
        for host in [
            "example.com",
            "example.com:1414",
            "localhost",
            "127.0.0.1",
            "localhost:1415",
            "localhost:+1414",
            "localhost:14140",
            "localhost:",
            "localhost.:1414",
            "localhost.example.com:1414",
            "127.0.0.1.nip.io:1414",
            "127.1:1414",
            "0.0.0.0:1414",
            "2130706433:1414",
            "192.168.0.2:1414",
            "[::]:1414",
            "[::1]",
            "::1:1414",
            "[::ffff:127.0.0.1]:1414",
            "user@localhost:1414",
            "localhost:1414, localhost:1414",
            " localhost:1414",
            "",
        ] {
            check(&[("host", host)], 403);
        }
    }

    #[test]
    fn a_host_is_named_once() {
        check(&[], 400);
        check(&[OURS, OURS], 400);
        check(&[OURS, ("host", "example.com")], 400);
    }

    #[test]
    fn an_address_with_a_host_names_ours_too() {
        let door = Door::new(1414, None);
        let get = |uri| status(&door, Method::GET, uri, &[OURS]);
        assert_eq!(get("http://localhost:1414/v1/models"), 200);
        assert_eq!(get("http://example.com/v1/models"), 403);
    }

    #[test]
    fn no_page_is_let_in_by_any_origin() {
        let mut random = Random::new(7);
        let mut letter = || b"abcdefghijklmnopqrstuvwxyz0123456789-.:/"[random.below(40)] as char;
        for at in 0..1_000 {
            let name: String = (0..1 + at % 30).map(|_| letter()).collect();
            check(&[OURS, ("origin", &name)], 403);
            check(&[OURS, ("origin", &format!("http://{name}"))], 403);
            check(&[("host", &format!("{name}:1414"))], 403);
            check(&[("host", &name)], 403);
        }
        for origin in [
            "null",
            "",
            "http://127.0.0.1:1414",
            "http://localhost:1414",
            "file://",
        ] {
            check(&[OURS, ("origin", origin)], 403);
        }
    }

    #[test]
    fn a_key_is_asked_for_only_where_there_is_one() {
        let (open, closed) = (Door::new(1414, None), Door::new(1414, Some("secret")));
        let get = |door, uri, key| {
            let headers = [OURS, ("authorization", key)];
            status(door, Method::GET, uri, &headers)
        };
        assert_eq!(get(&open, "/v1/models", "Bearer x"), 200);
        assert_eq!(get(&closed, "/v1/models", "Bearer secret"), 200);
        assert_eq!(get(&closed, "/v1/models", "bearer secret"), 200);
        for key in [
            "",
            "secret",
            "Bearer",
            "Bearer ",
            "Bearer secre",
            "Bearer secrets",
            "Basic secret",
        ] {
            assert_eq!(get(&closed, "/v1/models", key), 401, "{key}");
        }
        assert_eq!(get(&closed, "/health", ""), 200);
        assert_eq!(get(&closed, "/healthy", ""), 401);
    }

    #[test]
    fn a_body_is_json() {
        let door = Door::new(1414, None);
        let post = |kind| {
            let headers = [OURS, ("content-type", kind)];
            status(&door, Method::POST, "/v1/chat/completions", &headers)
        };
        assert_eq!(post("application/json"), 200);
        assert_eq!(post("Application/JSON; charset=utf-8"), 200);
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "",
            "application/jsonp",
        ] {
            assert_eq!(post(kind), 415, "{kind}");
        }
    }
}
