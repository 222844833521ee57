"""The inverted index of Kuralenok et al. 2018 (section VI): pages in, posting lists and a change log out, word by word."""
