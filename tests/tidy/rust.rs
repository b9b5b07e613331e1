//! As much of Rust's grammar as the rules need: what is code and what is text, where functions end, what is imported.
//!
//! Not a parser: it trusts that the file compiles. Code made by macros is not seen.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

/// A word or a sign of the code. Comments are none, nor are strings, characters and numbers.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// Counted from 1.
    pub(crate) line: usize,
}

impl Token {
    fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(crate) fn is_word(&self) -> bool {
        let is_letter = |char: char| char.is_alphabetic() || char == '_';
        self.text.starts_with(is_letter)
    }
}

/// A function and its size, from the line of `fn` to the line of its closing brace.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first_line: usize,
    pub(crate) lines: usize,
}

/// The code of a file.
pub(crate) fn code(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    flatten(source.parse().unwrap_or_default(), &mut tokens);
    tokens
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let token = |text: String, span: Span| Token {
        text,
        line: span.start().line,
    };
    for tree in stream {
        match tree {
            TokenTree::Ident(word) => tokens.push(token(word.to_string(), word.span())),
            TokenTree::Punct(sign) => tokens.push(token(sign.to_string(), sign.span())),
            TokenTree::Literal(_) => {}
            TokenTree::Group(group) => {
                let [open, close] = match group.delimiter() {
                    Delimiter::Brace => ["{", "}"],
                    Delimiter::Bracket => ["[", "]"],
                    Delimiter::Parenthesis | Delimiter::None => ["(", ")"],
                };
                tokens.push(token(open.to_owned(), group.span_open()));
                flatten(group.stream(), tokens);
                tokens.push(token(close.to_owned(), group.span_close()));
            }
        }
    }
}

/// The code without what is marked `#[cfg(test)]`.
pub(crate) fn code_without_tests(source: &str) -> Vec<Token> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut tokens = code(source);
    let is_mark = |it: &[Token]| it.iter().zip(MARK).all(|(token, text)| token.is(text));
    while let Some(start) = tokens.windows(MARK.len()).position(is_mark) {
        let end = match body(&tokens, start) {
            Some(open) => closing_brace(&tokens, open),
            None => find(&tokens, start, ";"),
        };
        tokens.drain(start..tokens.len().min(end + 1));
    }
    tokens
}

/// Every function in a piece of code, nested ones too.
pub(crate) fn functions(tokens: &[Token]) -> Vec<Function> {
    let function = |at: usize| {
        // `fn(` is a type and `fn $name` a macro's pattern; only a name makes a function.
        let name = tokens.get(at + 1).filter(|it| it.is_word())?;
        let first_line = tokens[at].line;
        let end = closing_brace(tokens, body(tokens, at)?);
        Some(Function {
            name: name.text.clone(),
            first_line,
            lines: tokens[end].line - first_line + 1,
        })
    };
    let starts = (0..tokens.len()).filter(|&at| tokens[at].is("fn"));
    starts.filter_map(function).collect()
}

/// Every path of at least two parts, in imports and in between, written out: `use a::{b, c::d}` is `a::b` and `a::c::d`.
/// With the line where it starts.
pub(crate) fn paths(tokens: &[Token]) -> Vec<(usize, Vec<String>)> {
    let mut paths = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let is_capture = tokens.get(at + 1).is_some_and(|it| it.is("<"));
        if token.is("use") && !is_capture {
            let end = find(tokens, at, ";");
            let mut found = Vec::new();
            import(&tokens[at + 1..end], &[], &mut found);
            paths.extend(found.into_iter().map(|path| (token.line, path)));
            at = end;
        } else if token.is_word() {
            let path = inline_path(&tokens[at..]);
            // Its other words are no beginnings of paths.
            at += 3 * (path.len() - 1);
            if path.len() > 1 {
                paths.push((token.line, path));
            }
        }
        at += 1;
    }
    paths
}

/// The files that `mod name;` in this code may stand for: `a/b.rs` or `a/b/mod.rs`, from the path of the file itself.
pub(crate) fn child_modules(tokens: &[Token], path: &str) -> Vec<[String; 2]> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = match file {
        "mod.rs" | "main.rs" | "lib.rs" => folder.to_owned(),
        file => format!("{folder}/{}", file.trim_end_matches(".rs")),
    };
    let declared = tokens
        .windows(3)
        .filter(|it| it[0].is("mod") && it[2].is(";"));
    let files = |name: &str| {
        [
            format!("{folder}/{name}.rs"),
            format!("{folder}/{name}/mod.rs"),
        ]
    };
    declared.map(|it| files(&it[1].text)).collect()
}

/// The first token of this text from a place on; the number of tokens if there is none.
fn find(tokens: &[Token], from: usize, text: &str) -> usize {
    let found = tokens[from..].iter().position(|it| it.is(text));
    found.map_or(tokens.len(), |it| from + it)
}

/// The opening brace of an item's body, or nothing for one that ends with a semicolon.
fn body(tokens: &[Token], start: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = start;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return None,
            // `Array<{ N + 1 }>` in a signature is a value, not the body.
            "{" if depth == 0 && tokens[at - 1].is("<") => at = closing_brace(tokens, at),
            "{" if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The brace that closes the one at `open`.
fn closing_brace(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    let closes = |token: &Token| {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0
    };
    let length = tokens[open..].iter().position(closes);
    open + length.unwrap_or(tokens.len() - 1 - open)
}

/// Writes trees of imports out as paths.
fn import(tokens: &[Token], prefix: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "{" => {
                let end = closing_brace(tokens, at);
                import(&tokens[at + 1..end], &path, found);
                path.truncate(prefix.len());
                at = end;
            }
            "," => end_path(&mut path, prefix, found),
            "as" => at += 1,
            ":" => {}
            part => path.push(part.to_owned()),
        }
        at += 1;
    }
    end_path(&mut path, prefix, found);
}

fn end_path(path: &mut Vec<String>, prefix: &[String], found: &mut Vec<Vec<String>>) {
    if path.len() > prefix.len() {
        found.push(std::mem::replace(path, prefix.to_vec()));
    }
}

/// `a::b::c` at the start of a piece of code.
fn inline_path(tokens: &[Token]) -> Vec<String> {
    let mut path = vec![tokens[0].text.clone()];
    for next in tokens[1..].chunks(3) {
        match next {
            [one, two, word] if one.is(":") && two.is(":") && word.is_word() => {
                path.push(word.text.clone());
            }
            _ => break,
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_code(source: &str, expected: &str) {
        let tokens = code(source);
        let texts: Vec<&str> = tokens.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts.join(" "), expected);
    }

    #[test]
    fn comments_and_what_strings_hold_are_not_code() {
        check_code("a // }\nb /* { /* } */ { */ c", "a b c");
        check_code(r#"f("{ \" }", b"{", '{', 'a', x)"#, "f ( , , , , x )");
        check_code(r###"r##"{ "# "## + b"###, "+ b");
        check_code(
            "fn f<'a>(x: &'a str) {}",
            "fn f < ' a > ( x : & ' a str ) { }",
        );
    }

    #[test]
    fn tests_are_taken_out_of_the_code() {
        let source = "a();\n#[cfg(test)]\nmod tests { fn f() { b(); } }\nc();\n#[cfg(test)]\nmod more;\nd();";
        let code = code_without_tests(source);
        let words = code.iter().filter(|it| it.is_word());
        let left: Vec<_> = words.map(|it| (it.line, it.text.as_str())).collect();
        assert_eq!(left, [(1, "a"), (4, "c"), (7, "d")]);
    }

    #[test]
    fn functions_end_at_their_closing_brace() {
        let source = "type F = fn(u8);\ntrait T { fn declared(&self, x: [u8; 2]); }\n\
                      fn one() -> A<{ 1 }> { let x = \"}\"; }\n\
                      impl X {\n    fn three<'a>(\n        x: &'a str) where X: Y { if true { 1 }\n    }\n}\n\
                      fn outer() {\n    fn inner() {\n    }\n}\n";
        let found = functions(&code(source));
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.name.as_str(), it.first_line, it.lines))
            .collect();
        let expected = [
            ("one", 3, 1),
            ("three", 5, 3),
            ("outer", 9, 4),
            ("inner", 10, 2),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn imports_are_written_out() {
        let source =
            "use a::{b, c::{self, d as e}, f::*};\npub use ::g;\nlet x = h::i::<J>() + k::l!();";
        let found = paths(&code(source));
        let found: Vec<String> = found
            .iter()
            .map(|(line, path)| format!("{line} {}", path.join("::")))
            .collect();
        let expected = [
            "1 a::b",
            "1 a::c::self",
            "1 a::c::d",
            "1 a::f::*",
            "2 g",
            "3 h::i",
            "3 k::l",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_module_is_looked_for_where_the_compiler_does() {
        let code = code("mod b;\nmod inline {}");
        for (path, folder) in [("s/main.rs", "s"), ("s/a.rs", "s/a"), ("s/a/mod.rs", "s/a")] {
            let expected = [format!("{folder}/b.rs"), format!("{folder}/b/mod.rs")];
            assert_eq!(child_modules(&code, path), [expected]);
        }
    }
}
