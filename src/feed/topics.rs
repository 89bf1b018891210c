//! Queues by the table or the record that they are subscribed to.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::changes::Change;
use super::queue::Queue;

/// The queues of all live subscribers, by topic.
#[derive(Default)]
pub(super) struct Topics(HashMap<u32, OfTable>);

#[derive(Default)]
struct OfTable {
    whole: Vec<Arc<Queue>>,
    records: HashMap<Box<str>, Vec<Arc<Queue>>>,
}

impl Topics {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, queue: &Arc<Queue>) {
        let of_table = self.0.entry(queue.topic.table).or_default();
        let queues = match &queue.topic.id {
            None => &mut of_table.whole,
            Some(id) => of_table.records.entry(id.clone()).or_default(),
        };
        queues.push(Arc::clone(queue));
    }

    /// Removes a queue and returns whether it was there.
    pub(super) fn remove(&mut self, queue: &Arc<Queue>) -> bool {
        let take = |queues: &mut Vec<Arc<Queue>>| {
            let place = queues.iter().position(|other| Arc::ptr_eq(other, queue));
            place.map(|place| queues.swap_remove(place)).is_some()
        };
        let Some(of_table) = self.0.get_mut(&queue.topic.table) else { return false };
        let was_there = match &queue.topic.id {
            None => take(&mut of_table.whole),
            Some(id) => {
                let Some(queues) = of_table.records.get_mut(id) else { return false };
                let was_there = take(queues);
                if queues.is_empty() {
                    of_table.records.remove(id);
                }
                was_there
            }
        };
        if of_table.whole.is_empty() && of_table.records.is_empty() {
            self.0.remove(&queue.topic.table);
        }
        was_there
    }

    /// Returns the queues that a change concerns.
    pub(super) fn concerned(&self, change: &Change<'_>) -> SmallVec<[Arc<Queue>; 4]> {
        let Some(of_table) = self.0.get(&change.table) else { return SmallVec::new() };
        let whole = of_table.whole.iter();
        match change.id {
            Some(id) => whole.chain(of_table.records.get(id).into_iter().flatten()).cloned().collect(),
            None => whole.chain(of_table.records.values().flatten()).cloned().collect(),
        }
    }

    /// Returns the queues of some records, each with the position of its record.
    pub(super) fn of_records(&self, table: u32, ids: &[impl AsRef<str>]) -> Vec<(usize, Arc<Queue>)> {
        let mut queues = Vec::new();
        if let Some(of_table) = self.0.get(&table) {
            queues.reserve(ids.len());
            for (position, id) in ids.iter().enumerate() {
                let of_record = of_table.records.get(id.as_ref()).into_iter().flatten();
                queues.extend(of_record.map(|queue| (position, Arc::clone(queue))));
            }
        }
        queues
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.0.values().flat_map(|of_table| of_table.whole.iter().chain(of_table.records.values().flatten()))
    }

    pub(super) fn into_queues(self) -> impl Iterator<Item = Arc<Queue>> {
        self.0
            .into_values()
            .flat_map(|of_table| of_table.whole.into_iter().chain(of_table.records.into_values().flatten()))
    }
}
