//! The local tier's directory: the registry file of the user. Owns: nothing beyond
//! [`Registry`](super::registry::Registry).

use super::Local;
use crate::config::is_on;
use crate::door::Directory;
use shm::registry::{More, RefusalMap, RegistryMap};
use wire::reason::Reason;

impl Directory for Local {
    #[inline]
    fn mapped(&self) -> Option<&'static RegistryMap> {
        self.registry.mapped()
    }

    fn refusals(&self) -> Option<&'static RefusalMap> {
        self.registry.refusals()
    }

    #[inline]
    fn more(&self) -> Option<&'static More> {
        self.registry.more()
    }

    fn existing(&self) -> Result<&'static RegistryMap, Reason> {
        self.registry.existing()
    }

    fn existing_or_new(&self) -> Result<&'static RegistryMap, Reason> {
        self.registry.existing_or_new()
    }

    fn why_there_is_none(&self) -> Reason {
        self.registry.why_there_is_none()
    }

    fn begin_use(&self) -> bool {
        self.registry.begin_use()
    }

    fn end_use(&self) {
        self.registry.end_use();
    }

    fn begin_change(&self) -> bool {
        self.registry.begin_change()
    }

    fn end_change(&self) {
        self.registry.end_change();
    }

    fn leave(&self) {
        self.registry.leave(|| self.seat.leave());
        os::diag::forget();
    }

    fn spare(&self) {
        os::diag::forget();
    }

    fn has_left(&self) -> bool {
        self.registry.has_left()
    }

    fn owner(&self) -> Option<u32> {
        self.registry.owner()
    }

    fn is_to_be_found(&self) -> bool {
        self.registry.is_to_be_found()
    }

    fn is_a_copy(&self) -> bool {
        self.registry.is_a_copy()
    }

    fn after_fork(&self) {
        self.registry.after_fork();
    }

    fn set(&self, name: &[u8], value: &[u8]) {
        match name {
            b"SMC_REGISTRY_DIR" => self.registry.folder.set(value),
            b"SMC_DEBUG" => self.registry.folder.tell(is_on(value)),
            _ => {}
        }
    }
}
