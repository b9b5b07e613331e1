//! The server as the window switches it on and off.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use super::*;

/// What comes for a request to the server at an address, as it is.
fn got(address: &str, path: &str) -> std::io::Result<String> {
    let host = address.strip_prefix("http://").unwrap();
    let host = host.strip_suffix("/v1").unwrap();
    let mut stream = TcpStream::connect(host)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_run_is_served_to_other_programs_until_that_is_switched_off() {
    let window = Window::open();
    assert_eq!(window.call("server", json!({"after": 0})), Value::Null);
    let settings = |slots: usize| json!({"key": "secret", "cache": "q8", "slots": slots});
    let asked =
        |name: &str, slots| json!({"name": name, "settings": settings(slots), "force": false});
    window.refused("start_server", asked("nothing", 4));

    let filled = with(window.small_run(), json!({"steps": "3"}));
    let id = window.call("start_run", json!({ "filled": filled, "force": false }));
    let id = id.as_str().unwrap();
    until(|| window.run(id)["status"] == "finished");
    window.refused("start_server", asked(id, 0));
    window.refused("start_server", asked(id, 5));
    let started = window.call("start_server", asked(id, 2));
    assert_eq!(started["slots"], 2);
    assert_eq!(started["model"], id);
    assert_eq!(started["hasKey"], true);
    assert_eq!(started["answers"], false);
    let address = started["address"].as_str().unwrap();
    let answer = got(address, "/v1/models").unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert!(
        got(address, "/health")
            .unwrap()
            .starts_with("HTTP/1.1 200 ")
    );

    let entries = |after: u32| {
        let server = window.call("server", json!({ "after": after }));
        server["entries"].as_array().unwrap().len()
    };
    until(|| entries(0) == 2);
    assert_eq!(entries(1), 1);
    window.call("stop_server", json!({}));
    assert_eq!(window.call("server", json!({"after": 0})), Value::Null);
    assert!(got(address, "/health").is_err());
}
