//! The little JSON that RuleSources needs: null, booleans, strings, lists and objects.
//!
//! Strings are decoded to the bytes that they stand for: a lone `\udc80`–`\udcff` is one byte (`src/rel-path.ts`).
//! Numbers are not among what is read here.

use crate::error::{EngineError, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    Null,
    Bool(bool),
    Text(Vec<u8>),
    List(Vec<Json>),
    Object(Vec<(Vec<u8>, Json)>),
}

impl Json {
    pub fn parse(bytes: &[u8]) -> Result<Json> {
        let mut parser = Parser { rest: bytes };
        let value = parser.value(0)?;
        parser.space();
        if parser.rest.is_empty() {
            Ok(value)
        } else {
            Err(damage())
        }
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(k, _)| k == key.as_bytes()).map(|(_, v)| v),
            _ => None,
        }
    }
}

fn damage() -> EngineError {
    EngineError::corrupt("the rule sources are not the JSON that is expected")
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl Parser<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn eat(&mut self, token: &[u8]) -> bool {
        self.space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &[u8]) -> Result<()> {
        if self.eat(token) { Ok(()) } else { Err(damage()) }
    }

    fn value(&mut self, depth: u32) -> Result<Json> {
        if depth > 8 {
            return Err(damage());
        }
        if self.eat(b"null") {
            return Ok(Json::Null);
        }
        if self.eat(b"true") {
            return Ok(Json::Bool(true));
        }
        if self.eat(b"false") {
            return Ok(Json::Bool(false));
        }
        if self.eat(b"[") {
            return self.items(b"]", |p| p.value(depth + 1)).map(Json::List);
        }
        if self.eat(b"{") {
            let fields = self.items(b"}", |p| {
                let key = p.text()?;
                p.expect(b":")?;
                Ok((key, p.value(depth + 1)?))
            })?;
            return Ok(Json::Object(fields));
        }
        self.text().map(Json::Text)
    }

    fn items<T>(&mut self, end: &[u8], mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut out = Vec::new();
        if self.eat(end) {
            return Ok(out);
        }
        loop {
            out.push(item(self)?);
            if self.eat(end) {
                return Ok(out);
            }
            self.expect(b",")?;
        }
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        self.expect(b"\"")?;
        let mut out = Vec::new();
        loop {
            let (&first, rest) = self.rest.split_first().ok_or_else(damage)?;
            self.rest = rest;
            match first {
                b'"' => return Ok(out),
                b'\\' => self.escape(&mut out)?,
                byte => out.push(byte),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let (&kind, rest) = self.rest.split_first().ok_or_else(damage)?;
        self.rest = rest;
        match kind {
            b'"' | b'\\' | b'/' => out.push(kind),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let unit = self.unit()?;
                self.code_unit(unit, out)?;
            }
            _ => return Err(damage()),
        }
        Ok(())
    }

    fn unit(&mut self) -> Result<u32> {
        let (digits, rest) = self.rest.split_at_checked(4).ok_or_else(damage)?;
        self.rest = rest;
        let text = std::str::from_utf8(digits).map_err(|_| damage())?;
        u32::from_str_radix(text, 16).map_err(|_| damage())
    }

    fn code_unit(&mut self, unit: u32, out: &mut Vec<u8>) -> Result<()> {
        if (0xdc80..=0xdcff).contains(&unit) {
            out.push((unit - 0xdc00) as u8);
            return Ok(());
        }
        let mut code = unit;
        if (0xd800..0xdc00).contains(&unit) {
            self.rest = self.rest.strip_prefix(b"\\u").ok_or_else(damage)?;
            let low = self.unit()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(damage());
            }
            code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        }
        let letter = char::from_u32(code).ok_or_else(damage)?;
        out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}

/// Appends `bytes` as a JSON string; what isn't UTF-8 becomes lone surrogates, as `JSON.stringify` writes them.
pub fn write_text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\u{8}' => out.extend_from_slice(b"\\b"),
                '\u{c}' => out.extend_from_slice(b"\\f"),
                c if c < ' ' => out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes()),
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(format!("\\udc{byte:02x}").as_bytes());
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_the_way_to_json_and_back() {
        for bytes in [&b"plain"[..], b"a\"b\\c\n\t\x01", "ü😀".as_bytes(), b"\xff/\x80x"] {
            let mut text = Vec::new();
            write_text(&mut text, bytes);
            assert_eq!(Json::parse(&text).unwrap(), Json::Text(bytes.to_vec()));
        }
    }

    #[test]
    fn escapes_of_json_stringify_are_read() {
        let parsed = Json::parse(br#"{"a":["\ud83d\ude00","\udcff",null],"b":true}"#).unwrap();
        assert_eq!(parsed.get("b"), Some(&Json::Bool(true)));
        let list = vec![Json::Text("😀".into()), Json::Text(vec![0xff]), Json::Null];
        assert_eq!(parsed.get("a"), Some(&Json::List(list)));
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let whole = br#"{"a":["\ud83d\ude00"],"b":{"c":null}}"#;
        for end in 0..whole.len() {
            assert!(Json::parse(&whole[..end]).is_err(), "cut at {end}");
        }
        assert!(Json::parse(&[b'['; 5000]).is_err());
    }
}
