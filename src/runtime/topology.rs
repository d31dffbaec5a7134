//! This machine's CPUs, as far as the choice of the workers' depends on it: physical cores, NUMA
//! nodes, and who serves the network cards' interrupts.

use super::cores;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cpu {
    id: usize,
    /// The same text for all threads of a physical core.
    siblings: String,
    node: Option<usize>,
    /// Its core does.
    serves_interrupts: bool,
}

/// The CPUs that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Ascending, at least one.
    cpus: Vec<Cpu>,
    /// Network cards that requests may leave by.
    cards: Vec<String>,
    /// The NUMA node of all of them, where they are on one.
    card_node: Option<usize>,
}

impl Topology {
    /// Reads it; network cards count only when requests leave the machine (`is_far`). Cost: a few
    /// files per CPU.
    pub fn read(is_far: bool) -> Topology {
        Topology::of(Path::new("/"), &cores::usable(), is_far)
    }

    fn of(root: &Path, usable: &[usize], is_far: bool) -> Topology {
        let cards = if is_far { cards(root) } else { Vec::new() };
        let nodes: BTreeSet<Option<usize>> =
            cards.iter().map(|card| card_node(root, card)).collect();
        let card_node = match nodes.len() {
            1 => nodes.into_iter().next().flatten(),
            _ => None,
        };
        let mut serving = BTreeSet::new();
        for card in &cards {
            serving.extend(interrupt_cpus(root, card));
        }
        let cpus = usable.iter().map(|&id| {
            let folder = root.join(format!("sys/devices/system/cpu/cpu{id}"));
            let siblings = fs::read_to_string(folder.join("topology/thread_siblings_list"));
            let siblings = siblings.map_or_else(|_| id.to_string(), |text| text.trim().into());
            let threads = cpu_list(&siblings);
            Cpu {
                id,
                siblings,
                node: entries(&folder)
                    .iter()
                    .find_map(|name| name.strip_prefix("node")?.parse().ok()),
                serves_interrupts: threads.iter().any(|id| serving.contains(id)),
            }
        });
        Topology {
            cpus: cpus.collect(),
            cards,
            card_node,
        }
    }

    /// Physical cores.
    pub fn physical_count(&self) -> usize {
        let cores: BTreeSet<&str> = self.cpus.iter().map(|cpu| cpu.siblings.as_str()).collect();
        cores.len()
    }

    /// The `count` best CPUs for workers, ascending: one of each physical core before any second
    /// thread, the cards' node before others, those that serve interrupts last, and the first core,
    /// where the system's own work lands, after all the others. Fewer when there are fewer.
    pub fn choose(&self, count: usize) -> Vec<usize> {
        let first = self.cpus.first().map(|cpu| cpu.siblings.as_str());
        let mut seen = BTreeSet::new();
        let mut ranked: Vec<_> = self
            .cpus
            .iter()
            .map(|cpu| {
                let is_second = !seen.insert(cpu.siblings.as_str());
                let is_remote = self.card_node.is_some() && cpu.node != self.card_node;
                let is_first = Some(cpu.siblings.as_str()) == first;
                let last = std::cmp::Reverse(cpu.id);
                (is_second, is_remote, cpu.serves_interrupts, is_first, last)
            })
            .collect();
        ranked.sort_unstable();
        let mut chosen: Vec<usize> = ranked.iter().take(count).map(|rank| rank.4.0).collect();
        chosen.sort_unstable();
        chosen
    }

    /// What speaks for these CPUs and what against them, in one line.
    pub fn describe(&self, chosen: &[usize]) -> String {
        let of = |id: &usize| self.cpus.iter().find(|cpu| cpu.id == *id);
        let cpus: Vec<&Cpu> = chosen.iter().filter_map(of).collect();
        let ids = |wanted: &dyn Fn(&Cpu) -> bool| {
            let found = cpus.iter().filter(|cpu| wanted(cpu));
            let ids: Vec<String> = found.map(|cpu| cpu.id.to_string()).collect();
            (!ids.is_empty()).then(|| ids.join(", "))
        };
        let mut facts = Vec::new();
        let shares = |cpu: &Cpu| {
            let same = cpus.iter().filter(|other| other.siblings == cpu.siblings);
            same.count() > 1
        };
        facts.push(match ids(&shares) {
            Some(ids) => format!("{ids} share physical cores"),
            None if cpus.len() == 1 => "a physical core of its own".into(),
            None => "each a physical core of its own".into(),
        });
        let cards = self.cards.join(", ");
        if let Some(node) = self.card_node {
            let is_remote = |cpu: &Cpu| cpu.node.is_some_and(|own| own != node);
            facts.push(match ids(&is_remote) {
                Some(ids) => format!("{ids} not on NUMA node {node} of {cards}"),
                None => format!("on NUMA node {node} of {cards}"),
            });
        }
        if !self.cards.is_empty() {
            facts.push(match ids(&|cpu| cpu.serves_interrupts) {
                Some(ids) => format!("{ids} on cores that serve interrupts of {cards}"),
                None => format!("off the interrupts of {cards}"),
            });
        }
        let all: Vec<String> = chosen.iter().map(usize::to_string).collect();
        format!("workers on CPU {}: {}", all.join(", "), facts.join("; "))
    }
}

/// Names in a folder, sorted; none when it cannot be read.
fn entries(folder: &Path) -> Vec<String> {
    let read = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = read
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Network cards that are up: interfaces with a device behind them.
fn cards(root: &Path) -> Vec<String> {
    let folder = root.join("sys/class/net");
    let mut names = entries(&folder);
    names.retain(|name| {
        let state = fs::read_to_string(folder.join(name).join("operstate"));
        folder.join(name).join("device").exists() && state.is_ok_and(|s| s.trim() == "up")
    });
    names
}

fn card_node(root: &Path, card: &str) -> Option<usize> {
    let path = root.join(format!("sys/class/net/{card}/device/numa_node"));
    // -1, which is no number here, where there is but one node.
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// CPUs that serve a card's interrupts. Those of a virtio card are its parent's.
fn interrupt_cpus(root: &Path, card: &str) -> BTreeSet<usize> {
    let device = root.join(format!("sys/class/net/{card}/device"));
    let numbers = match entries(&device.join("msi_irqs")) {
        own if own.is_empty() => entries(&device.join("../msi_irqs")),
        own => own,
    };
    let mut cpus = BTreeSet::new();
    for number in numbers {
        let folder = root.join("proc/irq").join(number);
        let list = fs::read_to_string(folder.join("effective_affinity_list"))
            .or_else(|_| fs::read_to_string(folder.join("smp_affinity_list")));
        cpus.extend(cpu_list(&list.unwrap_or_default()));
    }
    cpus
}

/// `0-3,8` as numbers; what is no number is left out.
fn cpu_list(text: &str) -> Vec<usize> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let mut ends = part.splitn(2, '-').map(str::parse::<usize>);
        match (ends.next(), ends.next()) {
            (Some(Ok(one)), None) => all.push(one),
            (Some(Ok(from)), Some(Ok(to))) => all.extend(from..=to.min(from + 4_096)),
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two cores of two threads: 0-3 and, their siblings, 4-7; node 0 has 0, 1, 4
    /// and 5. A card on node 1 whose interrupts go to CPU 3.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for id in 0..8usize {
            let cpu = format!("sys/devices/system/cpu/cpu{id}");
            let siblings = format!("{},{}\n", id % 4, id % 4 + 4);
            write(format!("{cpu}/topology/thread_siblings_list"), &siblings);
            write(format!("{cpu}/node{}/x", (id % 4) / 2), "");
        }
        write("sys/class/net/lo/operstate".into(), "unknown\n");
        write("sys/class/net/eth0/operstate".into(), "up\n");
        write("sys/class/net/eth0/device/numa_node".into(), "1\n");
        write("sys/class/net/eth0/device/msi_irqs/33".into(), "");
        write("proc/irq/33/effective_affinity_list".into(), "3\n");
        root
    }

    #[test]
    fn workers_get_physical_cores_near_the_card_and_off_its_interrupts() {
        let root = machine();
        let usable: Vec<usize> = (0..8).collect();
        let far = Topology::of(root.path(), &usable, true);
        assert_eq!(far.physical_count(), 4);
        for (count, want) in [
            (1, &[2][..]),
            (2, &[2, 3]),
            (3, &[1, 2, 3]),
            (4, &[0, 1, 2, 3]),
            (5, &[0, 1, 2, 3, 6]),
            (20, &[0, 1, 2, 3, 4, 5, 6, 7]),
        ] {
            assert_eq!(far.choose(count), want, "{count}");
        }
        // Nothing leaves the machine: the card does not matter.
        let near = Topology::of(root.path(), &usable, false);
        assert_eq!(near.choose(1), [3]);
        // What this process may not use is not taken.
        assert_eq!(Topology::of(root.path(), &[4, 5], true).choose(2), [4, 5]);
    }

    #[test]
    fn the_choice_is_told_with_what_speaks_against_it() {
        let root = machine();
        let usable: Vec<usize> = (0..8).collect();
        let far = Topology::of(root.path(), &usable, true);
        assert_eq!(
            far.describe(&[2]),
            "workers on CPU 2: a physical core of its own; on NUMA node 1 of eth0; off the \
             interrupts of eth0"
        );
        assert_eq!(
            far.describe(&[1, 3, 7]),
            "workers on CPU 1, 3, 7: 3, 7 share physical cores; 1 not on NUMA node 1 of eth0; 3, \
             7 on cores that serve interrupts of eth0"
        );
        let near = Topology::of(root.path(), &usable, false);
        assert_eq!(
            near.describe(&[1, 2]),
            "workers on CPU 1, 2: each a physical core of its own"
        );
    }

    #[test]
    fn a_list_of_cpus_has_ranges() {
        assert_eq!(cpu_list("0-2,7\n"), [0, 1, 2, 7]);
        assert_eq!(cpu_list(""), [0usize; 0]);
        assert_eq!(cpu_list("x,3-,5"), [5]);
    }
}
