//! Adding up what the ranks computed of a step: the loss, and the gradients.
//!
//! Of a table of which a step uses a few rows, only the rows that some rank used are added up: all others are 0 everywhere.

use std::collections::BTreeSet;

use candle_core::Tensor;

use super::{Bucket, ENDS, RAN_OUT, Together};
use crate::{Error, Result, optim::write_rows, random::stable_hash, tape::Gradients};

/// The gradient of a table, of which only some rows are added up.
struct Table {
    name: String,
    /// [rows, width]. Rows that no rank used are 0.
    gradient: Tensor,
    /// Those that some rank used, in order.
    rows: Vec<u32>,
    /// The same on the device of the gradient.
    places: Tensor,
}

impl Table {
    fn new(name: String, gradient: Tensor, rows: BTreeSet<u32>) -> Result<Self> {
        let rows: Vec<u32> = rows.into_iter().collect();
        let places = Tensor::new(rows.as_slice(), gradient.device())?;
        Ok(Self {
            name,
            gradient,
            rows,
            places,
        })
    }

    /// The rows that are added up.
    fn used(&self) -> Result<Tensor> {
        Ok(self.gradient.index_select(&self.places, 0)?)
    }

    /// Puts the sums of these rows in their places.
    fn put(self, sums: &Tensor, gradients: &mut Gradients) -> Result<()> {
        write_rows(&self.gradient, &self.places, sums)?;
        gradients.note_rows(&self.name, self.rows);
        gradients.add(&self.name, self.gradient)
    }
}

impl Together {
    /// Loss and gradients of all ranks, from those that this rank computed or the error that it met. They are there after
    /// [`Together::wait`]. An error when the weights of the ranks are no longer the same after a step, `done`.
    ///
    /// Errors: the own one, or that of another rank. Memory that ran out elsewhere is memory that ran out here too, so that
    /// all ranks try the step again.
    pub(in crate::train) fn add_up(
        &mut self,
        own: Result<(Tensor, Gradients)>,
        done: usize,
    ) -> Result<(Tensor, Gradients)> {
        let separate = |(loss, mut gradients): (Tensor, Gradients)| {
            gradients.separate()?;
            Ok((loss, gradients))
        };
        let (loss, mut gradients) = match own.and_then(separate) {
            Ok(own) => own,
            Err(error) => return Err(self.fail_in_step(error)),
        };
        let tables = self.tables(&mut gradients)?;
        let of_tables = tables.iter().map(Table::used).collect::<Result<Vec<_>>>();
        let of_tables = match of_tables {
            Ok(of_tables) => of_tables,
            Err(error) => return Err(self.fail_in_step(error)),
        };

        let mut buckets = Vec::new();
        let mut names = Vec::new();
        for mut complete in gradients.take_complete() {
            let is_whole = |name: &String| tables.iter().all(|it| it.name != *name);
            complete.names.retain(is_whole);
            let tensors = complete.names.iter();
            buckets.push(Bucket {
                tensors: tensors.filter_map(|name| gradients.remove(name)).collect(),
                since: Some(complete.since),
            });
            names.push(complete.names);
        }
        let rest: Vec<String> = gradients.iter().map(|(name, _)| name.to_owned()).collect();
        let tensors = rest.iter().filter_map(|name| gradients.remove(name));
        buckets.push(Bucket {
            tensors: tensors.chain(of_tables).chain([loss]).collect(),
            since: None,
        });
        names.push(rest);

        let of_tables = tables.iter().map(|it| it.name.as_bytes());
        let hash = of_tables.fold(self.last_norm, stable_hash);
        let add = |hash, name: &String| stable_hash(hash, name.as_bytes());
        let hash = names.iter().fold(hash, |all, names| {
            names.iter().fold(stable_hash(all, b"together"), add)
        });
        let differ = || format!("the ranks no longer agree after step {done}");
        self.heard = Some(self.exchange(self.wanted, None, hash, differ)?);
        let mut sums = self.group.sum_tensors(buckets)?;
        let missing = || Error::Data("a sum over the ranks has no loss".to_owned());
        let last = sums.last_mut().ok_or_else(missing)?;
        let loss = last.pop().ok_or_else(missing)?;
        let of_tables = last.split_off(last.len().saturating_sub(tables.len()));
        for (name, sum) in names.iter().flatten().zip(sums.into_iter().flatten()) {
            gradients.add(name, sum)?;
        }
        for (table, sums) in tables.into_iter().zip(of_tables) {
            table.put(&sums, &mut gradients)?;
        }
        Ok((loss, gradients))
    }

    /// Takes the gradients of tables out whose rows were noted, with the rows that all ranks used.
    fn tables(&mut self, gradients: &mut Gradients) -> Result<Vec<Table>> {
        let names = gradients.iter().map(|it| it.0);
        let names = names.filter(|it| gradients.rows(it).is_some());
        let names: Vec<String> = names.map(str::to_owned).collect();
        let mut tables = Vec::with_capacity(names.len());
        for name in names {
            let own = gradients.rows(&name).into_iter().flatten();
            let own: Vec<u8> = own.flat_map(|row| row.to_le_bytes()).collect();
            let mut rows = BTreeSet::new();
            for of_rank in self.of_each(&own)? {
                let (of_rank, _) = of_rank.as_chunks::<4>();
                rows.extend(of_rank.iter().map(|row| u32::from_le_bytes(*row)));
            }
            let Some(gradient) = gradients.remove(&name) else {
                continue;
            };
            match Table::new(name, gradient, rows) {
                Ok(table) => tables.push(table),
                Err(error) => return Err(self.fail_in_step(error)),
            }
        }
        Ok(tables)
    }

    /// Tells all ranks that this one could not compute its part of a step. The error comes back.
    fn fail_in_step(&mut self, error: Error) -> Error {
        let in_pass = !matches!(error, Error::OutOfMemory(_));
        let how = if error.is_out_of_memory() && in_pass {
            RAN_OUT
        } else {
            ENDS
        };
        self.fail(error, how)
    }
}
