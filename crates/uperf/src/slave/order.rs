//! Reading a work order off the wire, bounded before anything is believed.

use std::io;

use crate::convert::{WorkOrder, check_head, check_transaction};
use crate::link::{Link, PATIENCE};
use crate::wire::{GroupHead, Message, RawFlowop, TransactionHead};

/// Reads the group, its transactions and their flowops.
pub(super) fn receive(link: &mut Link) -> io::Result<WorkOrder> {
    let bytes = link.receive_bytes(GroupHead::SIZE, Some(PATIENCE))?;
    let (head, order) = GroupHead::read(&bytes).map_err(invalid)?;
    link.order = order;
    check_head(&head).map_err(|error| invalid(format!("{error:#}")))?;
    let mut transactions = vec![];
    for _ in 0..head.transactions {
        let transaction: TransactionHead = link.receive(PATIENCE)?;
        check_transaction(&transaction).map_err(|error| invalid(format!("{error:#}")))?;
        let flowops: io::Result<Vec<RawFlowop>> =
            (0..transaction.flowops).map(|_| link.receive(PATIENCE)).collect();
        transactions.push((transaction, flowops?));
    }
    Ok(WorkOrder { head, transactions })
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
