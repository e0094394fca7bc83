//! [`Opaque`]: data that a device made, readable by that device alone.

use std::any::{Any, type_name};
use std::fmt::Debug;

use crate::error::{BowtieError, Result};

/// Data that a device made. Whoever passes it on knows nothing of it; a device that is given another one's data answers with an
/// error.
#[derive(Debug)]
pub(crate) struct Opaque(Box<dyn Data>);

trait Data: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> Data for T {}

impl Opaque {
    pub(crate) fn new<T: Any + Debug + Send + Sync>(data: T) -> Self {
        Self(Box::new(data))
    }

    /// The data, where it is a `T`.
    pub(crate) fn find<T: Any>(&self) -> Option<&T> {
        let data: &dyn Any = &*self.0;
        data.downcast_ref()
    }

    /// The data, which a device that stores it as a `T` must have made.
    ///
    /// # Errors
    /// [`BowtieError::Internal`] where another device made it.
    pub(crate) fn get<T: Any>(&self) -> Result<&T> {
        self.find().ok_or_else(of_another_device::<T>)
    }

    /// The data itself, as [`Opaque::get`].
    pub(crate) fn into_inner<T: Any>(self) -> Result<T> {
        let data: Box<dyn Any> = self.0;
        let data = data.downcast().map_err(|_| of_another_device::<T>())?;
        Ok(*data)
    }
}

/// The error of a device that was given what another one made instead of a `T`.
pub(crate) fn of_another_device<T>() -> BowtieError {
    BowtieError::Internal(format!(
        "a device was given another device's data instead of its own {}",
        type_name::<T>()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_another_device_is_an_error() {
        let data = Opaque::new(7_u32);
        assert_eq!(*data.get::<u32>().unwrap(), 7);
        assert!(data.find::<u64>().is_none());
        let Err(BowtieError::Internal(message)) = data.get::<u64>() else {
            panic!("it is no u64")
        };
        assert!(message.contains("another device's data"), "{message}");
        assert!(data.into_inner::<u64>().is_err());
    }
}
