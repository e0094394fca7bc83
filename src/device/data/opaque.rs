//! [`Opaque`]: data that only the device that made it can read.

use std::any::{Any, type_name};
use std::fmt::Debug;

use crate::error::{BowtieError, Result};

/// Data that a device made. Other code only passes it on. A device that gets another device's data returns an error.
#[derive(Debug)]
pub(crate) struct Opaque(Box<dyn Data>);

trait Data: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> Data for T {}

impl Opaque {
    pub(crate) fn new<T: Any + Debug + Send + Sync>(data: T) -> Self {
        Self(Box::new(data))
    }

    /// The data, if it is a `T`.
    pub(crate) fn find<T: Any>(&self) -> Option<&T> {
        let data: &dyn Any = &*self.0;
        data.downcast_ref()
    }

    /// The data as a `T`, which is how the device that made it stores it.
    ///
    /// # Errors
    /// [`BowtieError::Internal`] if another device made it.
    pub(crate) fn get<T: Any>(&self) -> Result<&T> {
        self.find().ok_or_else(of_another_device::<T>)
    }

    /// Consumes the data, as [`Opaque::get`].
    pub(crate) fn into_inner<T: Any>(self) -> Result<T> {
        let data: Box<dyn Any> = self.0;
        let data = data.downcast().map_err(|_| of_another_device::<T>())?;
        Ok(*data)
    }
}

/// The error of a device that was given another device's data instead of a `T`.
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
