//! Owner, group, access list and extended attributes: copied from the file that is replaced, where the OS allows.
//!
//! They are not recorded. File capabilities are never copied (they would give new bytes old rights), and an access
//! list is cut down to the target's mode before it is set, so that the temp is at no time wider open than its target.

use std::os::fd::BorrowedFd;

use rustix::fs::{Gid, Mode, Stat, Uid};

use crate::sys::{self, Sys};

const ACL: &[u8] = b"system.posix_acl_access";
const ACL_HEADER: usize = 4;
const ACL_ENTRY: usize = 8;
/// Tags of an access list's entries (linux/posix_acl_xattr.h).
const USER_OBJ: u16 = 0x01;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The mode to make a temp with. Its owner and group may not be the final ones yet: so the final mode, where it gives a
/// group nothing that it doesn't give to all, and leaves the owner what setting attributes takes; else the owner's alone.
pub fn first_mode(mode: u32) -> u32 {
    let group_alone = mode >> 3 & 7 & !mode;
    match (mode & 0o600, group_alone) {
        (0o600, 0) => mode & 0o777,
        _ => 0o600,
    }
}

pub fn same_owner(a: &Stat, b: &Stat) -> bool {
    (a.st_uid, a.st_gid) == (b.st_uid, b.st_gid)
}

/// Copies what can be copied to a temp that was just made. False: owner or group could not.
pub fn copy_owner((temp, now): (BorrowedFd<'_>, &Stat), old: &Stat) -> bool {
    let uid = (now.st_uid != old.st_uid).then(|| Uid::from_raw(old.st_uid));
    let gid = (now.st_gid != old.st_gid).then(|| Gid::from_raw(old.st_gid));
    if uid.is_none() && gid.is_none() {
        return true;
    }
    if sys::fchown(temp, uid, gid).is_ok() {
        return true;
    }
    // A user may give a file to another of his groups, but to no other user.
    let group_only = gid.is_some() && sys::fchown(temp, None, gid).is_ok();
    uid.is_none() && group_only
}

/// Copies extended attributes and the access list. Those that the OS refuses are left out.
pub fn copy_xattrs(temp: BorrowedFd<'_>, old: BorrowedFd<'_>, mode: u32) {
    // Not supported here, or changing at this moment: nothing is copied.
    let Ok(list) = sys::flistxattr(old) else { return };
    for name in list.split(|b| *b == 0).filter(|n| copied(n)) {
        let Ok(mut value) = sys::fgetxattr(old, name) else {
            continue;
        };
        if name == ACL && !limit_acl(&mut value, mode) {
            continue;
        }
        // Refused (another owner's label, no room, not supported): the file is written without it.
        let _ = sys::fsetxattr(temp, name, &value);
    }
}

fn copied(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name.starts_with(b"trusted.") || name == ACL || name == b"security.selinux"
}

/// Sets the list's owner, mask and others to the bits of `mode`, which is what the kernel makes the mode of.
fn limit_acl(acl: &mut [u8], mode: u32) -> bool {
    if acl.len() < ACL_HEADER || !(acl.len() - ACL_HEADER).is_multiple_of(ACL_ENTRY) {
        return false;
    }
    let tag_of = |entry: &[u8]| u16::from_le_bytes([entry[0], entry[1]]);
    let masked = acl[ACL_HEADER..]
        .chunks_exact(ACL_ENTRY)
        .any(|e| tag_of(e) == MASK);
    for entry in acl[ACL_HEADER..].chunks_exact_mut(ACL_ENTRY) {
        let bits = match tag_of(entry) {
            USER_OBJ => mode >> 6,
            MASK => mode >> 3,
            GROUP_OBJ if !masked => mode >> 3,
            OTHER => mode,
            _ => continue,
        };
        entry[2..4].copy_from_slice(&((bits & 7) as u16).to_le_bytes());
    }
    true
}

/// Sets the final nine bits.
pub fn set_mode(file: BorrowedFd<'_>, mode: u32) -> Sys<()> {
    sys::fchmod(file, Mode::from_raw_mode(mode & 0o777))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tag: u16, bits: u16) -> Vec<u8> {
        let mut out = [tag.to_le_bytes(), bits.to_le_bytes()].concat();
        out.extend([0xff; 4]);
        out
    }

    #[test]
    fn a_new_file_gives_no_group_more_than_all_others() {
        for (mode, first) in [
            (0o644, 0o644),
            (0o755, 0o755),
            (0o600, 0o600),
            (0o777, 0o777),
            (0o666, 0o666),
        ] {
            assert_eq!(first_mode(mode), first, "{mode:o}");
        }
        for mode in [0o640, 0o664, 0o750, 0o775, 0o660, 0o444, 0o044, 0o000] {
            assert_eq!(first_mode(mode), 0o600, "{mode:o}");
        }
    }

    #[test]
    fn an_access_list_never_gives_more_than_the_mode() {
        let mut acl = 2u32.to_le_bytes().to_vec();
        for (tag, bits) in [(USER_OBJ, 7), (2, 7), (GROUP_OBJ, 7), (MASK, 7), (OTHER, 7)] {
            acl.extend(entry(tag, bits));
        }
        assert!(limit_acl(&mut acl, 0o640));
        let bits: Vec<u16> = acl[4..]
            .chunks(8)
            .map(|e| u16::from_le_bytes([e[2], e[3]]))
            .collect();
        assert_eq!(bits, [6, 7, 7, 4, 0], "the mask limits named users and the group");
        assert!(
            !limit_acl(&mut acl[..9], 0o640),
            "a list of a wrong length is left out"
        );
    }
}
