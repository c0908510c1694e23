//! Tables of borrowed names: what is written is read, and what is damaged is no table.

use gix_hash::{Kind, ObjectId};

use super::loan::{Lent, Loan};
use super::name_of;

fn entry(number: u8, kind: Kind) -> Lent {
    let id = ObjectId::from_bytes_or_panic(&vec![number; kind.len_in_bytes()]);
    Lent {
        name: name_of(7, &id),
        real: number.is_multiple_of(2).then_some([number; 16]),
        pack: u32::from(number % 3),
        offset: u64::from(number) << 33,
        size: u64::from(number),
        id,
    }
}

#[test]
fn a_table_is_read_as_it_was_written() {
    for kind in [Kind::Sha1, Kind::Sha256] {
        let folder = tempfile::tempdir().unwrap();
        let mut entries: Vec<Lent> = (1..100).map(|number| entry(number, kind)).collect();
        let packs = ["pack-a".to_string(), "pack-b".to_string(), "pack-c".to_string()];
        Loan::write(folder.path(), (kind, &packs), &mut entries).unwrap();
        let loan = Loan::load(folder.path()).unwrap();
        assert_eq!((loan.kind, loan.packs.as_slice()), (kind, &packs[..]));
        assert_eq!(loan.all().collect::<Vec<_>>(), entries);
        for lent in &entries {
            assert_eq!(loan.find(&lent.name).as_ref(), Some(lent));
        }
        assert_eq!(loan.find(&[0; 16]), None);
    }
}

#[test]
fn a_table_with_any_byte_changed_or_cut_off_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut entries = [entry(1, Kind::Sha1), entry(2, Kind::Sha1)];
    Loan::write(folder.path(), (Kind::Sha1, &["pack-a".to_string()]), &mut entries).unwrap();
    let table = folder.path().join("loan");
    let whole = std::fs::read(&table).unwrap();
    for at in 0..whole.len() {
        let mut bad = whole.clone();
        bad[at] ^= 0x40;
        std::fs::write(&table, &bad).unwrap();
        assert!(Loan::load(folder.path()).is_err(), "{at}");
        std::fs::write(&table, &whole[..at]).unwrap();
        assert!(Loan::load(folder.path()).is_err(), "{at} bytes");
    }
}

#[test]
fn names_of_objects_depend_on_the_store() {
    let id = ObjectId::from_bytes_or_panic(&[5; 20]);
    assert_ne!(name_of(1, &id), name_of(2, &id));
}
