//! A disk that loses power, fills up and fails. What was not synced is gone after a crash, or there in
//! part, or there as rubbish; a name is gone if its folder was not synced.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use crate::disk::{Disk, DiskFile};

/// Numbers that look random and depend on a seed alone.
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Less than `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Dir,
    File(usize),
}

/// A change of names that is not durable yet.
#[derive(Clone)]
enum Change {
    Add(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl Change {
    fn touches(&self, dir: &Path) -> bool {
        match self {
            Self::Add(path, _) | Self::Remove(path) => path.parent() == Some(dir),
            Self::Rename(from, to) => from.parent() == Some(dir) || to.parent() == Some(dir),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Self::Add(path, node) => {
                names.insert(path.clone(), *node);
            }
            Self::Remove(path) => {
                names.remove(path);
            }
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

#[derive(Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    cache: Vec<u8>,
    /// A sync failed: these bytes are marked as written and never will be.
    lost: Option<(usize, usize)>,
}

struct World {
    durable: BTreeMap<PathBuf, Node>,
    names: BTreeMap<PathBuf, Node>,
    changes: Vec<Change>,
    inodes: Vec<Inode>,
    dice: Dice,
    /// Operations until the power goes.
    power: Option<usize>,
    /// Bytes the disk holds.
    capacity: Option<usize>,
    /// Syncs of files until one fails.
    sync_fails: Option<usize>,
    /// Whether a write takes only part of what it is given.
    short: bool,
    /// Syncs of files so far.
    syncs: usize,
}

/// The disk. A clone is the same disk.
#[derive(Clone)]
pub(crate) struct SimDisk(Arc<Mutex<World>>);

impl SimDisk {
    pub(crate) fn new(seed: u64) -> Self {
        let root = BTreeMap::from([(PathBuf::from("/"), Node::Dir)]);
        Self(Arc::new(Mutex::new(World {
            durable: root.clone(),
            names: root,
            changes: Vec::new(),
            inodes: Vec::new(),
            dice: Dice::new(seed),
            power: None,
            capacity: None,
            sync_fails: None,
            short: false,
            syncs: 0,
        })))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    /// The power goes after this many operations.
    pub(crate) fn power_for(&self, operations: usize) {
        self.world().power = Some(operations);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.world().power == Some(0)
    }

    pub(crate) fn set_capacity(&self, bytes: Option<usize>) {
        self.world().capacity = bytes;
    }

    pub(crate) fn fail_sync(&self, after: usize) {
        self.world().sync_fails = Some(after);
    }

    pub(crate) fn write_short(&self) {
        self.world().short = true;
    }

    pub(crate) fn syncs(&self) -> usize {
        self.world().syncs
    }

    /// Bytes in all files.
    pub(crate) fn used(&self) -> usize {
        self.world().used()
    }

    /// What is there after the power was gone.
    pub(crate) fn crash(&self) {
        let mut world = self.world();
        let world = &mut *world;
        let kept = world.dice.roll(world.changes.len() + 1);
        for change in world.changes.drain(..).take(kept) {
            change.apply(&mut world.durable);
        }
        world.names = world.durable.clone();
        for inode in &mut world.inodes {
            inode.crash(&mut world.dice);
        }
        world.power = None;
        world.sync_fails = None;
    }
}

impl Inode {
    fn crash(&mut self, dice: &mut Dice) {
        if self.cache.len() > self.durable.len() && self.cache.starts_with(&self.durable) {
            // Any length, and any page of what is new may not have been written.
            let new = self.cache.len() - self.durable.len();
            let from = self.durable.len();
            let mut kept = self.cache[..from + dice.roll(new + 1)].to_vec();
            let page = 1 + dice.roll(200);
            for page in kept[from..].chunks_mut(page) {
                match dice.roll(8) {
                    0 => page.fill(0),
                    1 => page
                        .iter_mut()
                        .for_each(|byte| *byte = dice.roll(256) as u8),
                    _ => {}
                }
            }
            if let Some((from, to)) = self.lost {
                let to = to.min(kept.len());
                kept[from.min(to)..to].fill(0);
            }
            self.durable = kept;
        } else if dice.roll(2) == 0 {
            self.durable.clone_from(&self.cache);
        }
        self.cache.clone_from(&self.durable);
        self.lost = None;
    }
}

impl World {
    fn used(&self) -> usize {
        self.inodes.iter().map(|inode| inode.cache.len()).sum()
    }

    /// Counts an operation; fails once the power is gone.
    fn operate(&mut self) -> io::Result<()> {
        match &mut self.power {
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn parent_exists(&self, path: &Path) -> io::Result<()> {
        match path.parent().map(|dir| self.names.get(dir)) {
            Some(Some(Node::Dir)) => Ok(()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn inode(&self, path: &Path) -> io::Result<usize> {
        match self.names.get(path) {
            Some(Node::File(inode)) => Ok(*inode),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Disk for SimDisk {
    fn create(&self, file: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.world();
        world.operate()?;
        world.parent_exists(file)?;
        if world.names.contains_key(file) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        world.inodes.push(Inode::default());
        let inode = world.inodes.len() - 1;
        world.change(Change::Add(file.to_owned(), Node::File(inode)));
        Ok(Box::new(SimFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.world();
        world.operate()?;
        let inode = world.inode(file)?;
        Ok(Box::new(SimFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        let mut world = self.world();
        world.operate()?;
        let inode = world.inode(file)?;
        Ok(world.inodes[inode].cache.clone())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.operate()?;
        if world.names.get(dir) != Some(&Node::Dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let within = world.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(within
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect())
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate()?;
        if world.names.contains_key(dir) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        world.parent_exists(dir)?;
        world.change(Change::Add(dir.to_owned(), Node::Dir));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate()?;
        if world.names.get(dir) != Some(&Node::Dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let changes = std::mem::take(&mut world.changes);
        for change in changes {
            if change.touches(dir) {
                change.apply(&mut world.durable);
            } else {
                world.changes.push(change);
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate()?;
        world.inode(from)?;
        world.parent_exists(to)?;
        world.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate()?;
        world.inode(file)?;
        world.change(Change::Remove(file.to_owned()));
        Ok(())
    }
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl DiskFile for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.disk.world();
        world.operate()?;
        let mut count = bytes.len();
        if world.short && count > 1 {
            count = 1 + world.dice.roll(count);
        }
        if let Some(capacity) = world.capacity {
            let free = capacity.saturating_sub(world.used());
            if free == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            count = count.min(free);
        }
        world.inodes[self.inode]
            .cache
            .extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.disk.world();
        world.operate()?;
        world.syncs += 1;
        let fails = match &mut world.sync_fails {
            Some(0) => {
                world.sync_fails = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        let inode = &mut world.inodes[self.inode];
        if fails {
            inode.lost = Some((inode.durable.len(), inode.cache.len()));
            return Err(io::Error::from_raw_os_error(5));
        }
        inode.durable.clone_from(&inode.cache);
        if let Some((from, to)) = inode.lost {
            // The next sync succeeds, and the bytes before it are not on the disk.
            let to = to.min(inode.durable.len());
            inode.durable[from.min(to)..to].fill(0);
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        world.operate()?;
        world.inodes[self.inode]
            .cache
            .truncate(usize::try_from(len).unwrap());
        Ok(())
    }
}
