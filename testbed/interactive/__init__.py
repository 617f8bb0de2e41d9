"""A lab that stays up for a person."""
