//! `CUDA_VISIBLE_DEVICES`: which GPUs and MIG instances a server started from here would see.
//!
//! Indices are taken in PCI order, as the driver counts. CUDA itself counts the fastest first
//! unless `CUDA_DEVICE_ORDER=PCI_BUS_ID`: on a machine with unlike GPUs give UUIDs.

use super::Device;
use std::collections::BTreeSet;

/// Characters of a wrong entry that a message shows.
const SHOWN_MAX: usize = 80;

/// A GPU or an instance on one, and what a list may call it beside its index.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// As reports call it; its instance is empty for a whole GPU.
    pub device: Device,
    /// `GPU-…` of a whole GPU; `MIG-…` and `MIG-GPU-…/3` of an instance.
    pub names: Vec<String>,
}

/// Positions of the rows that a list leaves, ascending, and a sentence on an entry that is nothing
/// here: as for CUDA the list ends at it.
///
/// A GPU has all its instances with it; an instance has the row of the whole GPU with it, which
/// alone tells power.
pub fn choose(list: &str, rows: &[Named]) -> (Vec<usize>, Option<String>) {
    let mut chosen = BTreeSet::new();
    for entry in list.split(',').map(str::trim) {
        // So one hides what follows, or all.
        if entry.is_empty() || entry.starts_with('-') {
            break;
        }
        let found = find(entry, rows);
        if found.is_empty() {
            let shown: String = entry.chars().take(SHOWN_MAX).collect();
            let text = format!(
                "CUDA_VISIBLE_DEVICES: `{}` is not one GPU here; as for CUDA the list ends before \
                 it.",
                shown.escape_debug()
            );
            return (chosen.into_iter().collect(), Some(text));
        }
        chosen.extend(found);
    }
    (chosen.into_iter().collect(), None)
}

/// The rows that an entry stands for, none where it stands for nothing or for several GPUs.
fn find(entry: &str, rows: &[Named]) -> Vec<usize> {
    let of_gpu = |index: u32| {
        let all = rows.iter().enumerate();
        all.filter(move |(_, row)| row.device.index == index)
            .map(|(at, _)| at)
    };
    if let Ok(index) = entry.parse::<u32>() {
        return of_gpu(index).collect();
    }
    let is_called = |row: &Named| match (pci(entry), entry.rsplit_once('/')) {
        (Some(address), _) => is_whole(row) && pci(&row.device.pci) == Some(address),
        // `MIG-GPU-…/3/0`: what the last number counts has no memory of its own.
        (None, Some((instance, _))) => row.names.iter().any(|name| name == instance),
        (None, None) => {
            let is_long = entry.len() > "GPU-".len();
            is_long && row.names.iter().any(|name| name.starts_with(entry))
        }
    };
    let called: Vec<usize> = (0..rows.len()).filter(|&at| is_called(&rows[at])).collect();
    match called[..] {
        [at] if is_whole(&rows[at]) => of_gpu(rows[at].device.index).collect(),
        [at] => of_gpu(rows[at].device.index)
            .filter(|&other| other == at || is_whole(&rows[other]))
            .collect(),
        _ => Vec::new(),
    }
}

fn is_whole(row: &Named) -> bool {
    row.device.instance.is_empty()
}

/// Domain, bus, device and function of `00000000:02:00.0`; the domain and function may be left out.
fn pci(text: &str) -> Option<[u32; 4]> {
    let hex = |digits: &str| u32::from_str_radix(digits, 16).ok();
    let (place, function) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Option<Vec<u32>> = place.split(':').map(hex).collect();
    match parts?[..] {
        [bus, device] => Some([0, bus, device, hex(function)?]),
        [domain, bus, device] => Some([domain, bus, device, hex(function)?]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GPUs 0 and 1, the second split into instances 3 and 4, and GPU 2.
    fn rows() -> Vec<Named> {
        let row = |index: u32, uuid: &str, instance: &str, names: &[&str]| Named {
            device: Device {
                index,
                uuid: uuid.to_owned(),
                instance: instance.to_owned(),
                pci: format!("00000000:{:02X}:00.0", 10 + index),
                ..Device::default()
            },
            names: names.iter().map(|&name| name.to_owned()).collect(),
        };
        vec![
            row(0, "GPU-aa01", "", &["GPU-aa01"]),
            row(1, "GPU-aa02", "", &["GPU-aa02"]),
            row(1, "GPU-aa02", "3", &["MIG-77-1", "MIG-GPU-aa02/3"]),
            row(1, "GPU-aa02", "4", &["MIG-77-2", "MIG-GPU-aa02/4"]),
            row(2, "GPU-bb01", "", &["GPU-bb01"]),
        ]
    }

    fn check(list: &str, want: &[usize], unknown: Option<&str>) {
        let (chosen, told) = choose(list, &rows());
        assert_eq!(chosen, want, "{list}");
        match unknown {
            Some(entry) => assert!(told.unwrap().contains(&format!("`{entry}`")), "{list}"),
            None => assert_eq!(told, None, "{list}"),
        }
    }

    #[test]
    fn gpus_go_by_index_uuid_its_beginning_and_pci_address() {
        check("0", &[0], None);
        check("2, 0", &[0, 4], None);
        check("1", &[1, 2, 3], None);
        check("GPU-bb01", &[4], None);
        check("GPU-b,GPU-aa01", &[0, 4], None);
        check("00000000:0C:00.0,0:a:0", &[0, 4], None);
        check("0c:00.0", &[4], None);
    }

    #[test]
    fn an_instance_has_the_whole_gpu_with_it_and_no_other_instance() {
        check("MIG-77-2", &[1, 3], None);
        check("MIG-GPU-aa02/3/0", &[1, 2], None);
        check("MIG-77-1,MIG-77-2,2", &[1, 2, 3, 4], None);
    }

    #[test]
    fn nothing_and_minus_one_hide_the_rest() {
        check("", &[], None);
        check("-1", &[], None);
        check("2,-1,0", &[4], None);
        check("2,,0", &[4], None);
    }

    #[test]
    fn the_list_ends_before_what_is_not_one_gpu() {
        check("2,9,0", &[4], Some("9"));
        check("GPU-aa0", &[], Some("GPU-aa0"));
        check("GPU-", &[], Some("GPU-"));
        check("MIG-GPU-aa02/5/0", &[], Some("MIG-GPU-aa02/5/0"));
        check("MIG-77", &[], Some("MIG-77"));
        check("99999999999,0", &[], Some("99999999999"));
        check("\u{1b}[31m", &[], Some("\\u{1b}[31m"));
    }
}
