//! The Certificate message up to TLS 1.2 (RFC 5246 section 7.4.2).

use crate::app::reader::Reader;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Subject and issuer of a certificate, as RFC 4514 writes names but in the certificate's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNames {
    /// Whom it is for.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
}

/// The names in the first certificate of a Certificate message's body, which is the server's own.
#[must_use]
pub fn names(body: &[u8]) -> Option<CertificateNames> {
    let mut reader = Reader::new(body);
    reader.u24()?;
    let length = reader.u24()? as usize;
    let (_, certificate) = X509Certificate::from_der(reader.take(length)?).ok()?;
    Some(CertificateNames {
        subject: certificate.subject().to_string(),
        issuer: certificate.issuer().to_string(),
    })
}
