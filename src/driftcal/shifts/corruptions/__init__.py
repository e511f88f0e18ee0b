"""The 19 corruptions of Hendrycks & Dietterich (2019)."""
