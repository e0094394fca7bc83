//! [`KnownRates`]: the rates of the machine, as far as the process knows them.
//!
//! ```text
//! first plan that asks for a GPU   ─► file ─► host: measured where the file has none, in some 8 ms     card: the file's or the reference's
//! first opening of the card        ─► card: measured where the file has none, in some 20 ms ─► file
//! ```
//!
//! The host is measured once in a process, so that all plans have the same rates of it. No plan waits for a card.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use parking_lot::Mutex;

use crate::device::gpu_info::GpuInfo;
use crate::device::machine_rates::{CardRates, HostRates, MachineRates};
use crate::error::Result;
use crate::runtime::kept_rates::{Kept, KeptRates, Machine};
use crate::runtime::{gpus, host_rates};

/// What is known of cards and of the host, and where it is kept.
#[derive(Debug)]
pub(crate) struct KnownRates {
    kept: KeptRates,
    host: OnceLock<HostRates>,
    /// Of each machine whose file was read.
    cards: Mutex<BTreeMap<Machine, Card>>,
    /// Held while a card is measured. Plans never ask for it.
    measuring: Mutex<()>,
}

/// A card whose file was read.
#[derive(Debug, Clone, Copy)]
struct Card {
    rates: Option<CardRates>,
    /// The host's rates that are kept beside it.
    host: Option<HostRates>,
    /// Whether it was measured, or could not be.
    tried: bool,
}

/// Those of the process. Unit tests measure nothing, so that no plan of theirs depends on the machine.
static KNOWN: LazyLock<KnownRates> = LazyLock::new(|| {
    KnownRates::new(match cfg!(test) {
        true => KeptRates::Off,
        false => KeptRates::of_environment(),
    })
});

/// The rates to plan with. The first call in a process may measure the host; no device is opened.
pub(crate) fn planned(gpu: &GpuInfo) -> MachineRates {
    KNOWN.planned(&Machine::of(gpu), measured_host)
}

/// Has the rates of GPU `ordinal`, which is open, measured if they are unknown.
pub(crate) fn opened(ordinal: u32) {
    let Ok(gpu) = gpus::gpu(ordinal) else {
        return;
    };
    let rates = KNOWN.opened(&Machine::of(gpu), || gpus::measure(ordinal));
    if let Some(rates) = rates {
        gpus::use_memory_rates(ordinal, rates.memory);
    }
}

/// `None` in a build without optimisation, whose loops say nothing of DataFusion's.
fn measured_host() -> Option<HostRates> {
    (!cfg!(debug_assertions)).then(host_rates::measured)
}

impl KnownRates {
    pub(crate) fn new(kept: KeptRates) -> Self {
        Self {
            kept,
            host: OnceLock::new(),
            cards: Mutex::default(),
            measuring: Mutex::default(),
        }
    }

    /// The rates to plan with.
    pub(crate) fn planned(
        &self,
        machine: &Machine,
        measure: impl FnOnce() -> Option<HostRates>,
    ) -> MachineRates {
        if self.kept == KeptRates::Off {
            return MachineRates::REFERENCE;
        }
        let card = self.card(machine);
        let host = self.host.get_or_init(|| {
            let measured = || {
                let host = measure()?.bounded();
                let kept = Kept {
                    host: Some(host),
                    card: None,
                };
                self.kept.write(machine, kept);
                Some(host)
            };
            let host = card.host.or_else(measured);
            host.unwrap_or(HostRates::REFERENCE)
        });
        MachineRates {
            host: *host,
            card: card.rates.unwrap_or(CardRates::REFERENCE),
        }
    }

    /// The rates of a card that is open; `None` where it could not be measured.
    pub(crate) fn opened(
        &self,
        machine: &Machine,
        measure: impl FnOnce() -> Result<Option<CardRates>>,
    ) -> Option<CardRates> {
        if self.kept == KeptRates::Off {
            return Some(CardRates::REFERENCE);
        }
        let _alone = self.measuring.lock();
        let card = self.card(machine);
        if card.rates.is_some() || card.tried {
            return card.rates;
        }
        // Work that fails here fails again in a query, which has an error then.
        let measured = measure().unwrap_or_else(|error| {
            log::debug!("the card is not measured: {error}");
            None
        });
        let rates = measured.map(CardRates::bounded);
        if rates.is_some() {
            let kept = Kept {
                host: None,
                card: rates,
            };
            self.kept.write(machine, kept);
        }
        let card = Card {
            rates,
            tried: true,
            ..card
        };
        self.cards.lock().insert(machine.clone(), card);
        rates
    }

    /// What is known of a card. Its file is read once.
    fn card(&self, machine: &Machine) -> Card {
        let mut cards = self.cards.lock();
        if let Some(card) = cards.get(machine) {
            return *card;
        }
        let kept = self.kept.read(machine);
        let card = Card {
            rates: kept.card,
            host: kept.host,
            tried: false,
        };
        cards.insert(machine.clone(), card);
        card
    }
}

#[cfg(test)]
mod tests;
