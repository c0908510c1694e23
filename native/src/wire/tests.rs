use super::*;
use crate::error::Code;

fn stat() -> StatKey {
    StatKey {
        kind: FileKind::File,
        mode: 0o640,
        size: 7,
        mtime_ns: -1,
        ctime_ns: 1_700_000_000_123_456_789,
        ino: u64::MAX,
        dev: 3,
    }
}

fn samples() -> Vec<Version> {
    vec![
        Version::Absent,
        Version::File {
            mode: 0o755,
            size: 1 << 40,
            content: [0xab; 16],
        },
        Version::Symlink {
            target: b"../caf\xe9".to_vec(),
        },
        Version::Dir { mode: 0o700 },
        Version::Special {
            kind: SpecialType::Block,
            ino: 9,
        },
        Version::Uncovered {
            reason: Reason::Mount,
            stat: stat(),
        },
    ]
}

#[test]
fn a_file_version_has_the_bytes_of_the_format_page() {
    let mut writer = Writer::new();
    writer.version(&Version::File {
        mode: 0o644,
        size: 5,
        content: [1; 16],
    });
    let mut expected = vec![1, 0xa4, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0];
    expected.extend([1; 16]);
    assert_eq!(writer.done(), expected);
}

/// One list that holds every kind, byte for byte what `test/wire.test.ts` writes and reads, too.
#[test]
fn the_vector_that_both_languages_share_is_read_and_written() {
    let hex: String = include_str!("../../../test/vectors/changes.hex")
        .split_whitespace()
        .collect();
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let changes = decode_changes(&bytes).unwrap();
    let content: Hash = std::array::from_fn(|i| i as u8);
    let git = StatKey {
        kind: FileKind::Dir,
        mode: 0,
        size: 0,
        mtime_ns: 0,
        ctime_ns: 0,
        ino: 12,
        dev: 3,
    };
    let secret = StatKey {
        kind: FileKind::File,
        mode: 0o600,
        size: 1 << 40,
        mtime_ns: -1,
        ctime_ns: 1_700_000_000_123_456_789,
        ino: u64::MAX,
        dev: 3,
    };
    let change = |path: &[u8], before, after, flags| Change {
        path: path.to_vec(),
        before,
        after,
        flags,
    };
    let expected = vec![
        change(
            b".env",
            Version::Absent,
            Version::Uncovered {
                reason: Reason::Secret,
                stat: secret,
            },
            8,
        ),
        change(
            b"a/.git",
            Version::Uncovered {
                reason: Reason::Git,
                stat: git,
            },
            Version::Absent,
            0,
        ),
        change(
            "a/\u{e9} \u{1f600}".as_bytes(),
            Version::File {
                mode: 0o644,
                size: 5,
                content,
            },
            Version::File {
                mode: 0o755,
                size: 1 << 33,
                content: [0xff; 16],
            },
            1 | 2 | 4,
        ),
        change(
            b"bad-\xff\xc3",
            Version::Dir { mode: 0o700 },
            Version::Symlink {
                target: b"../caf\xe9".to_vec(),
            },
            0,
        ),
        change(
            b"pipe",
            Version::Special {
                kind: SpecialType::Fifo,
                ino: 9,
            },
            Version::Absent,
            0,
        ),
    ];
    assert_eq!(changes, expected);
    assert_eq!(encode_changes(&expected), bytes);
}

#[test]
fn a_change_list_reads_back_as_it_was_written() {
    let versions = samples();
    let changes: Vec<Change> = versions
        .iter()
        .zip(versions.iter().rev())
        .map(|(before, after)| Change {
            path: b"a/\xff".to_vec(),
            before: before.clone(),
            after: after.clone(),
            flags: row_flag::LATE,
        })
        .collect();
    assert_eq!(decode_changes(&encode_changes(&changes)).unwrap(), changes);
}

#[test]
fn a_list_that_is_cut_or_too_long_is_damage_at_every_byte() {
    let versions = samples();
    let bytes = encode_versions(versions.iter().map(|v| (&b"p"[..], v)));
    for end in 0..bytes.len() {
        let error = decode_versions(&bytes[..end]).unwrap_err();
        assert_eq!(error.code, Code::StoreCorrupt, "cut at {end}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(decode_versions(&longer).unwrap_err().code, Code::StoreCorrupt);
}

#[test]
fn a_count_that_cannot_fit_is_refused_before_anything_is_allocated() {
    let bytes = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert_eq!(decode_paths(&bytes).unwrap_err().code, Code::StoreCorrupt);
    assert_eq!(decode_changes(&bytes).unwrap_err().code, Code::StoreCorrupt);
}

#[test]
fn no_damaged_byte_makes_the_reader_panic() {
    let versions = samples();
    let bytes = encode_versions(versions.iter().map(|v| (&b"p"[..], v)));
    for at in 0..bytes.len() {
        for flip in [1u8, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let _ = decode_versions(&damaged);
        }
    }
}

#[test]
fn frames_end_before_the_first_torn_or_damaged_one() {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, 1, b"first");
    let first = bytes.len();
    write_frame(&mut bytes, 2, b"");
    write_frame(&mut bytes, 3, &[7; 300]);
    let kinds: Vec<u32> = Frames::new(&bytes).map(|f| f.kind).collect();
    assert_eq!(kinds, [1, 2, 3]);
    for end in first..first + FRAME_OVERHEAD {
        let mut frames = Frames::new(&bytes[..end]);
        assert_eq!(frames.by_ref().count(), 1, "cut at {end}");
        assert_eq!(frames.position(), first);
    }
    for at in first..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(Frames::new(&damaged).count() < 3, "damaged at {at}");
    }
}
