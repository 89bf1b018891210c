//! Whether each record has a linearizable history. Each write gives its record a tag that no other write has, and has read the tag before
//! it; so the writes of a record that were done form chains, from a creation to a deletion, which have to fit the times at which the
//! requests began and ended.

use std::collections::{BTreeMap, HashMap, HashSet};

/// Turns in which a request began and ended.
#[derive(Clone, Copy, Debug)]
pub struct During {
    pub begin: u64,
    pub end: u64,
}

/// A write of a record by a request that was not refused.
#[derive(Clone, Debug)]
pub struct Write {
    pub id: String,
    /// The tag that it replaced; `None` if there was no record.
    pub before: Option<i64>,
    /// The tag that it gave; `None` if it deleted the record.
    pub after: Option<i64>,
    pub during: During,
    /// Whether it was acknowledged; otherwise it is unknown whether it was done.
    pub is_known: bool,
}

/// A tag that was read; `None` if there was no record.
#[derive(Clone, Debug)]
pub struct Read {
    pub id: String,
    pub tag: Option<i64>,
    pub during: During,
}

/// All that some servers have said.
#[derive(Default)]
pub struct History {
    pub writes: Vec<Write>,
    pub reads: Vec<Read>,
}

impl History {
    /// Returns what no sequence of these requests explains; `last` are the tags of the records at the end.
    pub fn check(&self, last: &BTreeMap<String, i64>) -> Vec<String> {
        let mut by_id: BTreeMap<&str, (Vec<&Write>, Vec<&Read>)> = BTreeMap::new();
        self.writes.iter().for_each(|write| by_id.entry(&write.id).or_default().0.push(write));
        self.reads.iter().for_each(|read| by_id.entry(&read.id).or_default().1.push(read));
        let of_record = |(id, (writes, reads))| check_record(id, writes, reads, last.get(id).copied());
        let mut wrong: Vec<String> = by_id.into_iter().flat_map(of_record).collect();
        let unheard = last.keys().filter(|id| !self.writes.iter().any(|write| write.id == **id));
        wrong.extend(unheard.map(|id| format!("{id} is there, and nobody has written it")));
        wrong
    }
}

/// A record from its creation to its deletion.
struct Life {
    begun: During,
    ended: Option<During>,
}

/// All writes of a record that were not refused, and what is known of them.
struct Chain<'h> {
    id: &'h str,
    writes: Vec<&'h Write>,
    /// The tag that is left.
    last: Option<i64>,
    /// The tags that were read, replaced or left.
    seen: HashSet<i64>,
    /// The write that gave each tag.
    by_tag: HashMap<i64, &'h Write>,
    /// The writes that may have replaced each tag.
    next: HashMap<i64, Vec<&'h Write>>,
    /// Of these the one that has.
    successor: HashMap<i64, &'h Write>,
    wrong: Vec<String>,
}

fn check_record(id: &str, mut writes: Vec<&Write>, reads: Vec<&Read>, last: Option<i64>) -> Vec<String> {
    writes.sort_by_key(|write| write.during.end);
    let by_tag: HashMap<i64, &Write> = writes.iter().filter_map(|write| Some((write.after?, *write))).collect();
    let seen =
        reads.iter().filter_map(|read| read.tag).chain(writes.iter().filter_map(|write| write.before)).chain(last);
    let (seen, mut next) = (seen.collect::<HashSet<_>>(), HashMap::<i64, Vec<&Write>>::new());
    for write in &writes {
        if let Some(before) = write.before {
            next.entry(before).or_default().push(write);
        }
    }
    let wrong = seen.iter().filter(|tag| !by_tag.contains_key(tag)).map(|tag| format!("{id}: nobody wrote {tag}"));
    let wrong = wrong.collect();
    let mut chain = Chain { id, writes, last, seen, by_tag, next, successor: HashMap::new(), wrong };
    chain.link();
    let lives = chain.lives();
    reads.iter().for_each(|read| chain.check_read(read, &lives));
    chain.check_apart(lives);
    chain.wrong
}

impl Chain<'_> {
    fn was_seen(&self, write: &Write) -> bool {
        write.after.is_some_and(|after| self.seen.contains(&after))
    }

    /// Finds what follows each tag: the write that was acknowledged, or the one that is unknown and left something to be seen, or else
    /// deleted the record.
    fn link(&mut self) {
        let id = self.id;
        for (tag, writes) in std::mem::take(&mut self.next) {
            let known: Vec<_> = writes.iter().filter(|write| write.is_known).collect();
            if let [one, other, ..] = known[..] {
                self.wrong.push(format!("{id}: {one:?} and {other:?} replaced the same version"));
            }
            let deleted = || writes.iter().find(|write| write.after.is_none() && self.last != Some(tag));
            let done = known.first().copied().or_else(|| writes.iter().find(|write| self.was_seen(write)));
            let done = done.or_else(deleted).copied();
            let others = writes.iter().filter(|write| done.is_some_and(|done| done.after != write.after));
            let twice = others.filter(|write| self.was_seen(write));
            let twice: Vec<_> =
                twice.map(|write| format!("{id}: {write:?} was seen, and another followed the same version")).collect();
            self.wrong.extend(twice);
            self.successor.extend(done.map(|done| (tag, done)));
            self.next.insert(tag, writes);
        }
    }

    /// Follows the chains from their creations on.
    fn lives(&mut self) -> Vec<Life> {
        let (id, last, mut lives) = (self.id, self.last, Vec::new());
        let created =
            self.writes.iter().filter(|write| write.before.is_none() && (write.is_known || self.was_seen(write)));
        for creation in created.copied().collect::<Vec<_>>() {
            let (mut write, mut ended) = (creation, None);
            while let Some(tag) = write.after {
                let Some(following) = self.successor.get(&tag) else {
                    let may_be_gone = self.next.get(&tag).is_some_and(|after| after.iter().any(|one| !one.is_known));
                    if last != Some(tag) && !may_be_gone {
                        self.wrong.push(format!("{id}: {write:?} is lost: {last:?} is left"));
                    }
                    break;
                };
                if following.during.end < write.during.begin {
                    self.wrong.push(format!("{id}: {following:?} ended before {write:?} began, which it replaced"));
                }
                write = following;
                ended = write.after.is_none().then_some(write.during);
            }
            lives.push(Life { begun: creation.during, ended });
        }
        lives
    }

    /// Checks that what was read was there at some moment of the request.
    fn check_read(&mut self, read: &Read, lives: &[Life]) {
        let id = self.id;
        if let Some(tag) = read.tag {
            let next = self.successor.get(&tag);
            let after = next.filter(|next| next.during.end < read.during.begin && next.is_known);
            self.wrong.extend(after.map(|next| format!("{id}: {read:?} is older than {next:?}")));
            let before = self.by_tag.get(&tag).filter(|write| write.during.begin > read.during.end);
            self.wrong.extend(before.map(|write| format!("{id}: {read:?} was read before {write:?}")));
            return;
        }
        let all_along = |life: &&Life| {
            life.begun.end < read.during.begin && life.ended.is_none_or(|ended| ended.begin > read.during.end)
        };
        // One whose last write is unknown may have ended.
        let is_sure = !self.writes.iter().any(|write| !write.is_known && write.after.is_none());
        if is_sure && lives.iter().any(|life| all_along(&life)) {
            self.wrong.push(format!("{id}: {read:?} found nothing, and it was there"));
        }
    }

    /// Checks that the record was not there twice.
    fn check_apart(&mut self, mut lives: Vec<Life>) {
        lives.sort_by_key(|life| life.begun.end);
        let is_sure = !self.writes.iter().any(|write| !write.is_known);
        for pair in lives.windows(2).filter(|_| is_sure) {
            let is_apart = pair[0].ended.is_some_and(|ended| ended.begin <= pair[1].begun.end);
            let is_other_order = pair[1].ended.is_some_and(|ended| ended.begin <= pair[0].begun.end);
            if !is_apart && !is_other_order {
                let (one, other) = (pair[0].begun, pair[1].begun);
                self.wrong.push(format!("{}: it was created twice, at {one:?} and {other:?}", self.id));
            }
        }
    }
}
