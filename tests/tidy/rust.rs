//! As much of Rust's grammar as the rules need: what is code and what is text, where functions end, what is imported.
//!
//! Not a parser: it trusts that the file compiles. Code made by macros is not seen.

/// A function and its size, from the line of `fn` to the line of its closing brace.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first_line: usize,
    pub(crate) lines: usize,
}

/// The source with everything that is not code turned into spaces: comments, and what strings and characters hold.
/// Line breaks stay, so lines keep their numbers.
pub(crate) fn code(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = end_of_text(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            let blank = |&char: &char| if char == '\n' { '\n' } else { ' ' };
            code.extend(chars[at..end].iter().map(blank));
            at = end;
        }
    }
    code
}

/// The code without the bodies of what is marked `#[cfg(test)]`.
pub(crate) fn code_without_tests(source: &str) -> String {
    let mut code = code(source);
    while let Some(start) = code.find("#[cfg(test)]") {
        let end = match body(&code, start) {
            Some(open) => closing_brace(&code, open),
            None => code[start..]
                .find(';')
                .map_or(code.len() - 1, |it| start + it),
        };
        let blank = |char| if char == '\n' { '\n' } else { ' ' };
        let blanks: String = code[start..=end].chars().map(blank).collect();
        code.replace_range(start..=end, &blanks);
    }
    code
}

/// Every function in a piece of code, nested ones too.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    for (start, word) in words(code) {
        if word != "fn" {
            continue;
        }
        // `fn(` is a type and `fn $name` a macro's pattern; only a name makes a function.
        let name = identifier(code[start + 2..].trim_start());
        if name.is_empty() {
            continue;
        }
        if let Some(open) = body(code, start) {
            let end = closing_brace(code, open);
            functions.push(Function {
                name: name.to_owned(),
                first_line: line_of(code, start),
                lines: line_of(code, end) - line_of(code, start) + 1,
            });
        }
    }
    functions
}

/// Every path of at least two parts, in imports and in between, written out: `use a::{b, c::d}` is `a::b` and `a::c::d`.
/// With the line where it starts.
pub(crate) fn paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let mut paths = Vec::new();
    let mut skip_to = 0;
    for (start, word) in words(code) {
        if start < skip_to {
            continue;
        }
        if word == "use" {
            let end = code[start..].find(';').map_or(code.len(), |it| start + it);
            let line = line_of(code, start);
            let mut found = Vec::new();
            import(&code[start + 3..end], &[], &mut found);
            paths.extend(found.into_iter().map(|path| (line, path)));
            skip_to = end;
        } else if !code[..start].trim_end().ends_with("::") {
            let path = inline_path(&code[start..]);
            if path.len() > 1 {
                paths.push((line_of(code, start), path));
            }
        }
    }
    paths
}

/// The files that `mod name;` in this code may stand for: `a/b.rs` or `a/b/mod.rs`, from the path of the file itself.
pub(crate) fn child_modules(code: &str, path: &str) -> Vec<[String; 2]> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = match file {
        "mod.rs" | "main.rs" | "lib.rs" => folder.to_owned(),
        file => format!("{folder}/{}", file.trim_end_matches(".rs")),
    };
    words(code)
        .filter(|(_, word)| *word == "mod")
        .filter_map(|(start, _)| {
            let rest = code[start + 3..].trim_start();
            let name = identifier(rest);
            let is_file = rest[name.len()..].trim_start().starts_with(';');
            is_file.then(|| {
                [
                    format!("{folder}/{name}.rs"),
                    format!("{folder}/{name}/mod.rs"),
                ]
            })
        })
        .collect()
}

/// Words of letters, digits and underscores, with the byte where each starts.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + code[at..].find(is_word)?;
        let word = identifier(&code[start..]);
        at = start + word.len();
        Some((start, word))
    })
}

/// The line number of a byte, from 1.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    1 + text[..byte].matches('\n').count()
}

/// Where the comment, string or character that starts here ends; `at` itself if none starts here.
fn end_of_text(chars: &[char], at: usize) -> usize {
    let next = |offset: usize| chars.get(at + offset).copied();
    let follows_word = at > 0 && is_word(chars[at - 1]);
    match chars[at] {
        '/' if next(1) == Some('/') => find(chars, at, |it| it[0] == '\n', 0),
        '/' if next(1) == Some('*') => end_of_block_comment(chars, at),
        '"' => end_of_quoted(chars, at, '"'),
        'b' | 'c' if !follows_word && next(1) == Some('"') => end_of_quoted(chars, at + 1, '"'),
        'b' if !follows_word && next(1) == Some('\'') => end_of_quoted(chars, at + 1, '\''),
        'r' if !follows_word => end_of_raw(chars, at, at + 1),
        'b' | 'c' if !follows_word && next(1) == Some('r') => end_of_raw(chars, at, at + 2),
        // `'a'` and `'\n'` are characters, `'a` is a lifetime.
        '\'' if next(1) == Some('\\') || next(2) == Some('\'') => end_of_quoted(chars, at, '\''),
        _ => at,
    }
}

fn end_of_block_comment(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < chars.len() {
        match &chars[at..chars.len().min(at + 2)] {
            ['/', '*'] => (depth, at) = (depth + 1, at + 2),
            ['*', '/'] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn end_of_quoted(chars: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    chars.len().min(at + 1)
}

/// `r"…"` and `r##"…"##`. A raw name such as `r#type` is no string, so it ends where it starts.
fn end_of_raw(chars: &[char], start: usize, after_r: usize) -> usize {
    let hashes = chars[after_r.min(chars.len())..]
        .iter()
        .take_while(|it| **it == '#')
        .count();
    let open = after_r + hashes;
    if chars.get(open) != Some(&'"') {
        return start;
    }
    let closes = |rest: &[char]| {
        rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|char| *char == '#')
    };
    find(chars, open + 1, closes, 1 + hashes)
}

/// The first place from `at` on where the rest is as wanted, plus `width`; the end if there is none.
fn find(chars: &[char], at: usize, is_wanted: impl Fn(&[char]) -> bool, width: usize) -> usize {
    let place = (at..chars.len()).find(|place| is_wanted(&chars[*place..]));
    place.map_or(chars.len(), |place| place + width)
}

/// The opening brace of a function's body, or nothing for a declaration that ends with a semicolon.
fn body(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut before = ' ';
    let mut skip_to = start;
    for (at, char) in code[start..].char_indices() {
        let at = start + at;
        if at < skip_to {
            continue;
        }
        match char {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => return None,
            // `Array<{ N + 1 }>` in a signature is a value, not the body.
            '{' if depth == 0 && before == '<' => skip_to = closing_brace(code, at),
            '{' if depth == 0 => return Some(at),
            _ => {}
        }
        if !char.is_whitespace() {
            before = char;
        }
    }
    None
}

/// The brace that closes the one at `open`; the last byte if there is none.
fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, char) in code[open..].char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at;
        }
    }
    code.len() - 1
}

/// Writes one tree of imports out as paths.
fn import(tree: &str, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let tree = tree.trim().trim_start_matches("::");
    let (parts, group) = match tree.split_once('{') {
        Some((parts, group)) => (
            parts,
            Some(group.trim_end().strip_suffix('}').unwrap_or(group)),
        ),
        None => (tree.split(" as ").next().unwrap_or(tree), None),
    };
    let parts = parts.split("::").map(str::trim).filter(|it| !it.is_empty());
    let path: Vec<String> = prefix
        .iter()
        .cloned()
        .chain(parts.map(str::to_owned))
        .collect();
    let Some(group) = group else {
        found.push(path);
        return;
    };
    let mut depth = 0usize;
    let mut start = 0;
    for (at, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                import(&group[start..at], &path, found);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !group[start..].trim().is_empty() {
        import(&group[start..], &path, found);
    }
}

/// `a::b::c` at the start of a piece of code.
fn inline_path(code: &str) -> Vec<String> {
    let mut path = Vec::new();
    let mut rest = code;
    loop {
        let part = identifier(rest);
        if part.is_empty() {
            return path;
        }
        path.push(part.to_owned());
        match rest[part.len()..].strip_prefix("::") {
            Some(after) => rest = after,
            None => return path,
        }
    }
}

fn identifier(text: &str) -> &str {
    let end = text.find(|char| !is_word(char)).unwrap_or(text.len());
    &text[..end]
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the code without what is blank, and that nothing moved.
    #[track_caller]
    fn check_code(source: &str, expected: &str) {
        let code = code(source);
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words.join(" "), expected);
        assert_eq!(code.chars().count(), source.chars().count());
        assert_eq!(code.matches('\n').count(), source.matches('\n').count());
    }

    #[test]
    fn comments_and_what_strings_hold_are_not_code() {
        check_code("a // }\nb", "a b");
        check_code("a /* { /* } */ { */ b", "a b");
        check_code(r#"f("{ \" }", x)"#, "f( , x)");
        check_code("f(b\"{\", c\"{\")", "f( , )");
        check_code("\"a\n}\" b", "b");
        check_code("f(\"never closed", "f(");
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        check_code(r###"r##"{ "# "## + b"###, "+ b");
        check_code(r##"f(br#""{"#)"##, "f( )");
        check_code(r#"r"\" + b"#, "+ b");
        check_code("r#type + for", "r#type + for");
    }

    #[test]
    fn characters_are_text_and_lifetimes_are_code() {
        check_code("m('{', '\\'', b'}', '\\u{7d}')", "m( , , , )");
        check_code("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        check_code("f::<'_>('a')", "f::<'_>( )");
    }

    #[test]
    fn tests_are_taken_out_of_the_code() {
        let source = "a();\n#[cfg(test)]\nmod tests { fn f() { b(); } }\nc();\n#[cfg(test)]\nmod more;\nd();";
        let code = code_without_tests(source);
        let left: Vec<&str> = words(&code).map(|(_, word)| word).collect();
        assert_eq!(left, ["a", "c", "d"]);
        assert_eq!(code.lines().count(), source.lines().count());
    }

    #[test]
    fn functions_end_at_their_closing_brace() {
        let source = "type F = fn(u8);\ntrait T { fn declared(&self, x: [u8; 2]); }\n\
                      fn one() -> A<{ 1 }> { let x = \"}\"; }\n\
                      impl X {\n    fn three<'a>(\n        x: &'a str) where X: Y { if true { 1 }\n    }\n}\n\
                      fn outer() {\n    fn inner() {\n    }\n}\n";
        let found: Vec<(String, usize, usize)> = functions(&code(source))
            .into_iter()
            .map(|it| (it.name, it.first_line, it.lines))
            .collect();
        let expected = [
            ("one", 3, 1),
            ("three", 5, 3),
            ("outer", 9, 4),
            ("inner", 10, 2),
        ];
        assert_eq!(
            found,
            expected.map(|(name, line, lines)| (name.to_owned(), line, lines))
        );
    }

    #[test]
    fn imports_are_written_out() {
        let source =
            "use a::{b, c::{self, d as e}, f::*};\npub use ::g;\nlet x = h::i::<J>() + k::l!();";
        let found: Vec<(usize, String)> = paths(source)
            .into_iter()
            .map(|(line, path)| (line, path.join("::")))
            .collect();
        let expected = [
            (1, "a::b"),
            (1, "a::c::self"),
            (1, "a::c::d"),
            (1, "a::f::*"),
            (2, "g"),
            (3, "h::i"),
            (3, "k::l"),
        ];
        assert_eq!(found, expected.map(|(line, path)| (line, path.to_owned())));
    }

    #[test]
    fn a_module_is_looked_for_where_the_compiler_does() {
        let code = "mod b;\nmod inline {}";
        assert_eq!(child_modules(code, "s/main.rs"), [["s/b.rs", "s/b/mod.rs"]]);
        assert_eq!(
            child_modules(code, "s/a.rs"),
            [["s/a/b.rs", "s/a/b/mod.rs"]]
        );
        assert_eq!(
            child_modules(code, "s/a/mod.rs"),
            [["s/a/b.rs", "s/a/b/mod.rs"]]
        );
    }
}
