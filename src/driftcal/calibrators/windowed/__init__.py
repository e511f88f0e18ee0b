"""windowed"""
